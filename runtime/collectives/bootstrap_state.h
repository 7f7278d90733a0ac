// What the callers of a Bootstrap and its I/O thread share, and the two I/O loops.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/fd.h"
#include "runtime/collectives/bootstrap.h"
#include "runtime/collectives/bootstrap_wire.h"

namespace ccl {

// All members are safe to call from any thread.
class BootstrapState {
 public:
  BootstrapState(const BootstrapOptions& options, base::UniqueFd wake);

  const BootstrapOptions& options() const { return options_; }
  int wake_fd() const { return wake_.get(); }

  // Callers.
  base::Status wait_ready();
  base::Result<uint32_t> post(Blob blob);
  base::Result<Gathered> collect(uint32_t ticket);
  const wire::Table& table() const { return *table_; }
  base::Status health();
  bool waited_for();  // a caller is in wait_ready() or collect()
  void begin_execution() { ++begun_; }
  std::string missing();
  void stop();

  // I/O thread.
  bool stopping();
  void drain_wake();
  void set_ready(std::shared_ptr<const wire::Table> table);
  void fail(const base::Error& error);
  bool failed() const { return failed_; }
  bool deserted() const { return deserted_; }
  // A rank will take part in the first `contributions` all-gathers and in no more.
  void leave(uint32_t rank, uint32_t contributions);
  bool has_left(uint32_t rank);
  uint32_t contributions();  // own, so far
  // The first all-gather with an own contribution that is not complete.
  std::optional<uint32_t> awaited();
  // Own contributions that are not sent yet; empty until the table is complete.
  std::deque<std::pair<uint32_t, Blob>> take_posted();
  // An all-gather that is complete; false if it is not the next one.
  bool deliver(uint32_t tag, Gathered gathered);
  uint32_t begun() const { return begun_; }
  bool take_question();  // of missing()
  void answer(const std::string& text);
  void log(const std::string& text) const;
  void alarm(const std::string& text) const;

 private:
  void wake();

  const BootstrapOptions options_;
  base::UniqueFd wake_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool ready_ = false;
  bool stop_ = false;
  std::shared_ptr<const wire::Table> table_;
  std::optional<base::Error> failure_;
  std::atomic<bool> failed_{false};    // has failure_
  std::atomic<bool> deserted_{false};  // has left_
  uint32_t waiting_ = 0;               // callers
  std::atomic<uint32_t> begun_{0};     // executions
  bool question_ = false;              // of missing(), not sent yet
  std::optional<std::string> answer_;
  std::vector<bool> left_;
  uint32_t first_hopeless_ = ~0u;  // somebody has left before this all-gather
  uint32_t next_ticket_ = 0;
  uint32_t next_result_ = 0;
  std::map<uint32_t, Gathered> results_;  // not collected yet
  std::deque<std::pair<uint32_t, Blob>> posted_;
};

// The loops of the I/O thread; `root` unset: meet inside the process.
void run_root(BootstrapState* state, const std::optional<RootAddress>& root);
void run_peer(BootstrapState* state, const std::optional<RootAddress>& root);

}  // namespace ccl
