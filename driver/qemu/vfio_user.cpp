// Connection and dispatch; the commands are in vfio_user_commands.cpp, DMA through messages in
// vfio_user_dma.cpp.
#include "driver/qemu/vfio_user.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <utility>

namespace driver::qemu {
namespace {

using vfio::Header;

// Per call of serve(), so that one client cannot keep the machine from running: commands, and bytes
// of commands and answers (a register word takes 0.5 us).
constexpr int kMessagesPerCall = 64;
constexpr size_t kBytesPerCall = 256 << 10;
// Answers that wait for the client; past it, its commands wait too.
constexpr size_t kMaxPending = 4 << 20;

}  // namespace

VfioUser::VfioUser(pcie::Device& device, vfio::ClientMemory& memory, base::UniqueFd socket)
    : device_(device),
      memory_(memory),
      stream_(std::move(socket)),
      epoll_(::epoll_create1(EPOLL_CLOEXEC)),
      wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  memory_.set_messenger(this);
  epoll_event event{};
  event.events = watched_ = EPOLLIN;
  if (!epoll_.valid() || !wake_.valid() ||
      ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, wake_.get(), &event) != 0 ||
      ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, stream_.fd(), &event) != 0) {
    broken_ = base::errno_error("vfio-user", "cannot wait for the client");
  }
}

VfioUser::~VfioUser() {
  memory_.set_messenger(nullptr);
  memory_.clear();
}

base::Result<bool> VfioUser::serve() {
  base::Status served = serve_messages();
  if (served) served = stream_.flush();
  if (!broken_.ok()) served = broken_;
  if (served) {
    watch();
    return true;
  }
  give_up(served.error());
  if (served.error().fault == base::Fault::kIo && served.error().code == 0) return false;
  return served.error();
}

base::Status VfioUser::serve_messages() {
  moved_ = 0;
  for (int i = 0; i < kMessagesPerCall && moved_ < kBytesPerCall && broken_.ok(); ++i) {
    if (stream_.pending() > 0) {
      if (base::Status sent = stream_.flush(); !sent) return sent;
    }
    if (stream_.pending() >= kMaxPending) return {};
    if (!deferred_.empty()) {
      Message message = std::move(deferred_.front());
      deferred_.pop_front();
      deferred_bytes_ -= message.payload.size();
      if (base::Status done = handle(std::move(message)); !done) return done;
      continue;
    }
    auto message = stream_.receive();
    if (!message) return message.error();
    if (!message->has_value()) return {};
    if (base::Status done = handle(std::move(**message)); !done) return done;
  }
  return {};
}

// Asks to be called when there is something to do: a command that may be taken, an answer that can
// be sent, or commands that arrived while a DMA waited.
void VfioUser::watch() {
  const bool may_take = stream_.pending() < kMaxPending;
  epoll_event event{};
  event.events = (may_take ? EPOLLIN : 0u) | (stream_.pending() > 0 ? EPOLLOUT : 0u);
  // A guest that polls a register is served so often that calls which change nothing would show.
  if (event.events != watched_ &&
      ::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, stream_.fd(), &event) == 0) {
    watched_ = event.events;
  }
  set_wake(may_take && !deferred_.empty());
}

void VfioUser::set_wake(bool on) {
  if (on == awake_) return;
  uint64_t count = 1;
  const auto n =
      on ? ::write(wake_.get(), &count, sizeof count) : ::read(wake_.get(), &count, sizeof count);
  if (n == sizeof count) awake_ = on;
}

// From here on the client's memory is out of reach and serve() tells of the end.
void VfioUser::give_up(base::Error why) {
  if (!broken_.ok()) return;
  broken_ = std::move(why);
  set_wake(true);
}

base::Status VfioUser::handle(Message message) {
  const Header asked = message.header;
  if ((asked.flags & vfio::kFlagType) != vfio::kTypeCommand) {
    return base::Error{base::Fault::kUsage, EPROTO, "vfio-user",
                       "a reply to nothing, command " + std::to_string(asked.command)};
  }
  Reply reply = dispatch(message);
  moved_ += asked.size + reply.bytes.size();
  if ((asked.flags & vfio::kFlagNoReply) == 0) {
    Header header;
    header.id = asked.id;
    header.command = asked.command;
    header.flags = vfio::kTypeReply;
    header.error = reply.error;
    if (reply.error != 0) {
      header.flags |= vfio::kFlagError;
      reply.bytes.clear();
      reply.fd.reset();
    }
    reply.bytes.resize(std::max(reply.bytes.size(), sizeof(Header)));
    stream_.send(header, std::move(reply.bytes), std::move(reply.fd));
  }
  if (reply.farewell.empty()) return {};
  // The client should learn of it; if it does not listen, it will not.
  if (base::Status sent = stream_.flush(); !sent) return sent;
  return base::Error{base::Fault::kUsage, EPROTO, "vfio-user",
                     reply.farewell + "; the connection ends"};
}

VfioUser::Reply VfioUser::dispatch(Message& message) {
  const auto command = static_cast<vfio::Command>(message.header.command);
  if (!negotiated_ && command != vfio::Command::kVersion) {
    Reply reply = error(EINVAL);
    reply.farewell = "no agreement on a version";
    return reply;
  }
  constexpr uint32_t kKnownFlags = vfio::kFlagType | vfio::kFlagNoReply;
  if ((message.header.flags & ~kKnownFlags) != 0) return error(EINVAL);
  // Only a mapping and a setting of interrupts come with descriptors.
  if (command != vfio::Command::kDmaMap && command != vfio::Command::kDeviceSetIrqs &&
      (!message.fds.empty() || message.fds_lost)) {
    return error(EINVAL);
  }
  for (const Entry* entry = kCommands; entry->handler != nullptr; ++entry) {
    if (entry->command != command) continue;
    if (message.payload.size() < entry->least) return error(EINVAL);
    return (this->*entry->handler)(message);
  }
  return error(ENOTSUP);
}

}  // namespace driver::qemu
