// Durations of a job's instances over TCP (spec/tools.md 2.12): the nccom-test that has started
// them listens and prints; each instance has one connection and sends a line of JSON per step.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/fd.h"
#include "options.h"
#include "table.h"

namespace nccom {

class Collector {
 public:
  // Listens at the port of the options, or at any if that was not asked for and is taken.
  static base::Result<std::unique_ptr<Collector>> open(const Options& job, size_t streams);

  // What the instances must know: "host port token".
  std::string address() const;
  uint16_t port() const { return port_; }
  // Waits for the first word of every instance. When the launcher (0: none) has ended, nobody else
  // will come.
  base::Status meet(pid_t launcher);
  // Next step of all instances, in the order of their ranks; an error of any of them.
  base::Result<std::vector<Measurement>> measure(const std::vector<uint64_t>& sizes);

 private:
  struct Instance {
    base::UniqueFd socket;
    uint32_t rank_start = 0;
    std::string received;  // behind the last line taken
  };

  Collector(const Options& job, size_t streams) : job_(job), streams_(streams) {}
  void welcome(base::UniqueFd socket);
  base::Result<std::string> next_line(Instance* instance) const;

  Options job_;
  size_t streams_;
  base::UniqueFd listener_;
  std::string token_;  // keeps strangers out
  uint16_t port_ = 0;
  std::vector<Instance> instances_;  // by rank
};

// The instance's end.
class Reporter {
 public:
  // `address`: what Collector::address() gave.
  static base::Result<Reporter> connect(const std::string& address, uint32_t rank_start);
  base::Status send(const base::Result<std::vector<Measurement>>& measured);

 private:
  base::UniqueFd socket_;
};

}  // namespace nccom
