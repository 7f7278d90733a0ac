// `ssh HOST [COMMAND]`: a shell on a node, in the home directory, with the environment of a fresh
// login. Hosts that are no node of the machine are left to the real ssh.
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iostream>

#include "tools/soma/launch.h"
#include "tools/soma/supervisor.h"

namespace soma::launch {
namespace {

constexpr int kSshError = 255;  // of ssh itself; also a command that a signal ended

int ssh_error(const std::string& what) {
  std::cerr << "ssh: " << what << "\n";
  return kSshError;
}

// The next program of the same name on PATH.
int real_ssh(const Words& words, const std::string& host) {
  std::error_code error;
  const auto own = std::filesystem::read_symlink("/proc/self/exe", error);
  Words environment = own_environment();
  const char* path = std::getenv("PATH");
  std::string rest = path == nullptr ? "" : path;
  while (!rest.empty()) {
    const size_t colon = rest.find(':');
    const std::string directory = rest.substr(0, colon);
    rest.erase(0, colon == std::string::npos ? colon : colon + 1);
    const std::string candidate = directory + "/ssh";
    if (directory.empty() || ::access(candidate.c_str(), X_OK) != 0 ||
        std::filesystem::canonical(candidate, error) == own) {
      continue;
    }
    std::vector<char*> arguments{const_cast<char*>(candidate.c_str())};
    for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
    arguments.push_back(nullptr);
    ::execv(candidate.c_str(), arguments.data());
  }
  return ssh_error("'" + host + "' is not a node of the machine; usage: ssh HOST [COMMAND]");
}

std::vector<Option> ssh_options(bool& input) {
  std::vector<Option> known;
  // Identity, port, user and the like: who may log in, and how, is no question here.
  for (const char* name : {"b", "c", "E", "e", "F", "I", "i", "l", "m", "o", "p"}) {
    known.push_back({{name}, true, {}});
  }
  for (const char* name : {"4", "6", "A", "a", "C", "K", "k", "q", "T", "t", "v", "X", "x", "Y"}) {
    known.push_back({{name}, false, {}});
  }
  known.push_back({{"n"}, false, [&input](const std::string&) {
                     input = false;
                     return base::Status();
                   }});
  // Tunnels, masters, background.
  const auto refuse = [&known](const char* name, bool value) {
    known.push_back({{name}, value, [name](const std::string&) -> base::Status {
                       return base::Error{base::Fault::kUsage, 0, std::string("-") + name,
                                          "this option is not supported here"};
                     }});
  };
  for (const char* name : {"D", "J", "L", "O", "Q", "R", "S", "W", "w"}) refuse(name, true);
  for (const char* name : {"f", "G", "g", "M", "N", "s", "V", "y"}) refuse(name, false);
  return known;
}

// Whatever the options do.
std::string host_in(Words words, std::vector<Option> known) {
  for (Option& option : known) option.action = nullptr;
  return take_options(words, known) && !words.empty() ? words.front() : "";
}

std::string bare(std::string host) {
  constexpr const char* kScheme = "ssh://";
  if (host.rfind(kScheme, 0) == 0) host.erase(0, std::strlen(kScheme));
  const size_t at = host.rfind('@');
  return at == std::string::npos ? host : host.substr(at + 1);
}

}  // namespace

int ssh(const Running& machine, Words words) {
  const Words given = words;
  bool input = true;
  const std::vector<Option> known = ssh_options(input);
  const std::string host = bare(host_in(words, known));
  if (host.empty()) return real_ssh(given, "");
  const auto node = machine.node_of(host, own_node());
  if (!node) return real_ssh(given, host);
  for (int pass = 0; pass < 2; ++pass) {  // options stand before the host and behind it
    base::Status taken = take_options(words, known);
    if (!taken) return ssh_error(taken.error().message());
    if (pass == 0) words.erase(words.begin());
  }
  const char* shell = std::getenv("SHELL");
  Task task;
  task.node = *node;
  task.command = {shell == nullptr || *shell == '\0' ? "/bin/sh" : shell};
  std::string line;
  for (const std::string& word : words) line += (line.empty() ? "" : " ") + word;
  if (!line.empty()) task.command.insert(task.command.end(), {"-c", line});
  task.environment = on_node(login_environment(), *node);
  task.reads_input = input;
  const char* home = std::getenv("HOME");
  task.directory = home != nullptr && ::access(home, X_OK) == 0 ? home : "/";
  TaskGroup group;
  const base::Status started = group.start({task});
  if (!started) return ssh_error(started.error().message());
  const TaskGroup::End end = group.wait(false).ends.front();
  return end.signal != 0 ? kSshError : end.code;
}

}  // namespace soma::launch
