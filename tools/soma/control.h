// The control socket of a machine that stays up: one word per connection, answered until the end of
// the stream. Requests reach the kernel thread, which alone may touch the machine.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "base/error.h"
#include "base/fd.h"

namespace soma {

constexpr const char* kControlSocket = "/control";

class ControlServer {
 public:
  struct Request {
    std::string word;  // "reset", "report", "down"
    base::UniqueFd connection;
  };

  // Listens in `directory`; `arrived` is called from a thread, with the word, when take() has
  // something. SIGTERM
  // and SIGINT, which the caller has blocked, become a "down" without connection.
  static base::Result<std::unique_ptr<ControlServer>> start(
      const std::string& directory, std::function<void(const std::string&)> arrived);
  ~ControlServer();
  ControlServer(const ControlServer&) = delete;
  ControlServer& operator=(const ControlServer&) = delete;

  std::optional<Request> take();
  static void answer(const Request& request, const std::string& text);

 private:
  explicit ControlServer(std::function<void(const std::string&)> arrived);
  void loop();
  void put(Request request);

  struct Mailbox;
  std::function<void(const std::string&)> arrived_;
  base::UniqueFd listener_;
  base::UniqueFd signals_;
  base::UniqueFd quit_;
  std::unique_ptr<Mailbox> mailbox_;
  std::thread thread_;
};

// Sends `word` to the machine of `directory` and returns its answer.
base::Result<std::string> ask(const std::string& directory, const std::string& word);

}  // namespace soma
