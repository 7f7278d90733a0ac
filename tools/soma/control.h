// The control socket of a machine that stays up: one word per connection, answered until the end of
// the stream. Requests reach the kernel thread, which alone may touch the machine.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "base/error.h"
#include "base/fd.h"

namespace sim {
class Machine;
}

namespace soma {

constexpr const char* kControlSocket = "/control";

class ControlServer {
 public:
  struct Request {
    std::string word;  // "reset", "report", "down", and those of serve_link()
    base::UniqueFd connection;
  };

  // Both are called from a thread.
  struct Handlers {
    // True if it has taken the request over.
    std::function<bool(const std::shared_ptr<Request>&)> direct;
    // Others: take() has something, this word.
    std::function<void(const std::string&)> queued;
  };
  // Listens in `directory`. With `signals`, SIGTERM and SIGINT, which the caller has blocked,
  // become a "down" without connection.
  static base::Result<std::unique_ptr<ControlServer>> start(const std::string& directory,
                                                            bool signals, Handlers handlers);
  ~ControlServer();
  ControlServer(const ControlServer&) = delete;
  ControlServer& operator=(const ControlServer&) = delete;

  std::shared_ptr<Request> take();  // null: there is none
  static void answer(const Request& request, const std::string& text);

 private:
  ControlServer(bool signals, Handlers handlers);
  void loop();
  void put(Request request);

  struct Mailbox;
  Handlers handlers_;
  base::UniqueFd listener_;
  base::UniqueFd signals_;
  base::UniqueFd quit_;
  std::unique_ptr<Mailbox> mailbox_;
  std::thread thread_;
};

// Serves "link up NAME" and "link down NAME", where the name may be followed by " after " and the
// microseconds between the next release of barriers and the change; false for other words.
bool serve_link(sim::Machine& machine, const std::shared_ptr<ControlServer::Request>& request);

// Sends `word` to the machine of `directory` and returns its answer.
base::Result<std::string> ask(const std::string& directory, const std::string& word);

}  // namespace soma
