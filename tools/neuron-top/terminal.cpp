#include "tools/neuron-top/terminal.h"

#include <langinfo.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>
#include <termios.h>
#include <unistd.h>

#include <cerrno>
#include <clocale>
#include <csignal>
#include <cstdlib>
#include <cstring>

namespace neuron_top {
namespace {

constexpr int kSignals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGWINCH, SIGTSTP};

bool write_all(const std::string& text) {
  size_t done = 0;
  while (done < text.size()) {
    const ssize_t written = ::write(STDOUT_FILENO, text.data() + done, text.size() - done);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    done += static_cast<size_t>(written);
  }
  return true;
}

}  // namespace

base::Result<std::unique_ptr<Terminal>> Terminal::open() {
  if (::isatty(STDIN_FILENO) == 0 || ::isatty(STDOUT_FILENO) == 0) {
    return base::Error{base::Fault::kUsage, ENOTTY, "neuron-top",
                       "needs a terminal; neuron-monitor reports the same numbers to programs"};
  }
  std::unique_ptr<Terminal> terminal(new Terminal);
  terminal->saved_ = std::make_unique<termios>();
  if (::tcgetattr(STDIN_FILENO, terminal->saved_.get()) != 0) {
    return base::errno_error("neuron-top", "cannot ask the terminal");
  }
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : kSignals) sigaddset(&set, signal);
  ::sigprocmask(SIG_BLOCK, &set, nullptr);
  ::signal(SIGPIPE, SIG_IGN);
  terminal->signals_ = base::UniqueFd(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  terminal->timer_ = base::UniqueFd(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
  const itimerspec each_second = {{1, 0}, {1, 0}};
  if (!terminal->signals_.valid() || !terminal->timer_.valid() ||
      ::timerfd_settime(terminal->timer_.get(), 0, &each_second, nullptr) != 0) {
    return base::errno_error("neuron-top", "no descriptors for signals and time");
  }
  std::setlocale(LC_ALL, "");
  const char* kind = std::getenv("TERM");
  terminal->utf8_ = std::strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
  // https://no-color.org
  const char* without = std::getenv("NO_COLOR");
  terminal->colour_ =
      (without == nullptr || *without == 0) && (kind == nullptr || std::strcmp(kind, "dumb") != 0);
  terminal->enter();
  terminal->entered_ = true;
  return terminal;
}

Terminal::~Terminal() {
  if (entered_) leave();
}

// Keys come at once and unseen; those that make signals keep doing so.
void Terminal::enter() const {
  termios raw = *saved_;
  raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
  raw.c_cc[VMIN] = 0;
  raw.c_cc[VTIME] = 0;
  ::tcsetattr(STDIN_FILENO, TCSANOW, &raw);
  write_all("\x1b[?1049h\x1b[?25l");  // the other screen, no cursor
}

void Terminal::leave() const {
  write_all("\x1b[?25h\x1b[?1049l");
  ::tcsetattr(STDIN_FILENO, TCSANOW, saved_.get());
}

Look Terminal::look() const {
  Look look;
  winsize size = {};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 && size.ws_row > 0) {
    look.columns = size.ws_col;
    look.rows = size.ws_row;
  }
  look.colour = colour_;
  look.utf8 = utf8_;
  return look;
}

bool Terminal::show(const std::vector<std::string>& lines) const {
  std::string text = "\x1b[H";
  for (size_t i = 0; i < lines.size(); ++i) {
    text += lines[i] + "\x1b[K" + (i + 1 < lines.size() ? "\r\n" : "");
  }
  return write_all(text + "\x1b[J");
}

void Terminal::take_signal(News& news) const {
  signalfd_siginfo info = {};
  if (::read(signals_.get(), &info, sizeof info) != static_cast<ssize_t>(sizeof info)) return;
  const auto signal = static_cast<int>(info.ssi_signo);
  if (signal == SIGTSTP) {
    leave();
    ::raise(SIGSTOP);
    enter();
  }
  news.resized = news.resized || signal == SIGWINCH || signal == SIGTSTP;
  news.end = news.end || (signal != SIGWINCH && signal != SIGTSTP);
}

void Terminal::take_keys(News& news) {
  char buffer[256];
  const ssize_t count = ::read(STDIN_FILENO, buffer, sizeof buffer);
  if (count > 0) news.bytes.assign(buffer, static_cast<size_t>(count));
  if (count == 0 || (count < 0 && errno != EAGAIN && errno != EINTR)) news.end = true;
}

Terminal::News Terminal::wait() {
  pollfd watched[] = {
      {STDIN_FILENO, POLLIN, 0}, {signals_.get(), POLLIN, 0}, {timer_.get(), POLLIN, 0}};
  News news;
  if (::poll(watched, 3, -1) <= 0) return news;
  if (watched[1].revents != 0) take_signal(news);
  if (watched[0].revents != 0) take_keys(news);
  uint64_t ticks = 0;
  news.refresh = watched[2].revents != 0 && ::read(timer_.get(), &ticks, sizeof ticks) > 0;
  return news;
}

}  // namespace neuron_top
