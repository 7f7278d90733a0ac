// A HostExecutor for tests: driver tasks are ucontext coroutines in an own simulated clock that
// jumps to the next wake-up. Deterministic; nothing else takes time.
#pragma once

#include <ucontext.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "arch/pcie/pcie.h"

namespace driver_test {

class TaskExecutor : public pcie::HostExecutor {
 public:
  void spawn(std::string name, std::function<void()> body) override {
    auto task = std::make_unique<Task>();
    task->name = std::move(name);
    task->body = std::move(body);
    task->stack.resize(kStack);
    ::getcontext(&task->context);
    task->context.uc_stack.ss_sp = task->stack.data();
    task->context.uc_stack.ss_size = task->stack.size();
    task->context.uc_link = &scheduler_;
    const auto address = reinterpret_cast<uintptr_t>(this);
    ::makecontext(&task->context, reinterpret_cast<void (*)()>(&TaskExecutor::entry), 2,
                  static_cast<unsigned>(address), static_cast<unsigned>(address >> 32));
    task->ready_at = now_;
    task->order = next_order_++;
    tasks_.push_back(std::move(task));
  }

  void delay(base::Ps time) override {
    ++delays;
    suspend(nullptr, now_ + time);
  }

  bool wait(const void* channel, base::Ps timeout) override {
    return suspend(channel, timeout == kForever ? kForever : now_ + timeout);
  }

  void wake(const void* channel) override {
    for (const auto& task : tasks_) {
      if (task->channel != channel || channel == nullptr) continue;
      task->channel = nullptr;
      task->woken = true;
      task->ready_at = now_;
      task->order = next_order_++;
    }
  }

  base::Ps now() const override { return now_; }

  // Runs until no task can go on without being woken.
  void run() {
    for (;;) {
      Task* next = nullptr;
      for (const auto& task : tasks_) {
        if (task->ready_at == kForever) continue;
        if (next == nullptr || task->ready_at < next->ready_at ||
            (task->ready_at == next->ready_at && task->order < next->order)) {
          next = task.get();
        }
      }
      if (next == nullptr) return;
      now_ = std::max(now_, next->ready_at);
      next->channel = nullptr;
      current_ = next;
      ::swapcontext(&scheduler_, &next->context);
      current_ = nullptr;
      tasks_.erase(std::remove_if(tasks_.begin(), tasks_.end(),
                                  [](const auto& task) { return task->finished; }),
                   tasks_.end());
    }
  }

  size_t suspended() const { return tasks_.size(); }
  uint64_t delays = 0;

 private:
  static constexpr size_t kStack = 256 * 1024;
  struct Task {
    std::string name;
    std::function<void()> body;
    std::vector<uint8_t> stack;
    ucontext_t context;
    const void* channel = nullptr;
    bool woken = false;
    bool finished = false;
    base::Ps ready_at = 0;
    uint64_t order = 0;
  };

  static void entry(unsigned low, unsigned high) {
    auto* self = reinterpret_cast<TaskExecutor*>(static_cast<uintptr_t>(low) |
                                                 static_cast<uintptr_t>(high) << 32);
    Task* task = self->current_;
    task->body();
    task->finished = true;
    task->ready_at = kForever;
  }

  bool suspend(const void* channel, base::Ps until) {
    Task* task = current_;
    task->channel = channel;
    task->woken = false;
    task->ready_at = until;
    task->order = next_order_++;
    ::swapcontext(&task->context, &scheduler_);
    return task->woken;
  }

  ucontext_t scheduler_;
  std::vector<std::unique_ptr<Task>> tasks_;
  Task* current_ = nullptr;
  base::Ps now_ = 0;
  uint64_t next_order_ = 0;
};

}  // namespace driver_test
