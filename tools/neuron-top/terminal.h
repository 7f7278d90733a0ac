// The terminal as a screen: taken over at the start, given back at the end, also when a signal ends
// or stops the program.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/fd.h"
#include "tools/neuron-top/screen.h"

struct termios;

namespace neuron_top {

class Terminal {
 public:
  // Error: standard input or output is no terminal.
  static base::Result<std::unique_ptr<Terminal>> open();
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;
  ~Terminal();

  Look look() const;
  // False: nobody is there any more.
  bool show(const std::vector<std::string>& lines) const;

  struct News {
    std::string bytes;     // typed
    bool resized = false;  // or the program went on after a stop
    bool refresh = false;  // it is time, once a second of the host's
    bool end = false;      // a signal, or the terminal has gone
  };
  News wait();

 private:
  Terminal() = default;
  void enter() const;
  void leave() const;
  void take_signal(News& news) const;
  static void take_keys(News& news);

  std::unique_ptr<termios> saved_;
  base::UniqueFd signals_;
  base::UniqueFd timer_;  // its time is the host's also where clocks are a machine's
  bool entered_ = false;
  bool utf8_ = false;
  bool colour_ = false;
};

}  // namespace neuron_top
