#include "tests/nccom_test/schedule_model.h"

#include <cstring>
#include <deque>

#include "tools/nccom-test/golden.h"

namespace nccom {
namespace {

using contract::DType;
using contract::ReduceOp;

template <typename T>
T fold(ReduceOp op, T a, T b) {
  if (op == ReduceOp::kMax) return a < b ? b : a;
  if (op == ReduceOp::kMin) return b < a ? b : a;
  return static_cast<T>(a + b);
}

template <typename T>
void fold_integers(ReduceOp op, const std::vector<const uint8_t*>& sources, uint8_t* to) {
  T sum{};
  for (size_t i = 0; i < sources.size(); ++i) {
    T next{};
    std::memcpy(&next, sources[i], sizeof next);
    sum = i == 0 ? next : fold(op, sum, next);
  }
  std::memcpy(to, &sum, sizeof sum);
}

// Sums wrap: those of signed numbers are computed as unsigned ones.
template <typename Signed, typename Unsigned>
void fold_signed(ReduceOp op, const std::vector<const uint8_t*>& sources, uint8_t* to) {
  if (op == ReduceOp::kAdd) return fold_integers<Unsigned>(op, sources, to);
  fold_integers<Signed>(op, sources, to);
}

void fold_floats(DType type, ReduceOp op, const std::vector<const uint8_t*>& sources, uint8_t* to) {
  auto sum = static_cast<float>(decode(type, sources[0]));
  for (size_t i = 1; i < sources.size(); ++i) {
    sum = fold(op, sum, static_cast<float>(decode(type, sources[i])));
  }
  encode(type, sum, to);
}

void fold_element(DType type, ReduceOp op, const std::vector<const uint8_t*>& from, uint8_t* to) {
  switch (type) {
    case DType::kUint8:
      return fold_integers<uint8_t>(op, from, to);
    case DType::kUint16:
      return fold_integers<uint16_t>(op, from, to);
    case DType::kUint32:
      return fold_integers<uint32_t>(op, from, to);
    case DType::kUint64:
      return fold_integers<uint64_t>(op, from, to);
    case DType::kInt8:
      return fold_signed<int8_t, uint8_t>(op, from, to);
    case DType::kInt16:
      return fold_signed<int16_t, uint16_t>(op, from, to);
    case DType::kInt32:
      return fold_signed<int32_t, uint32_t>(op, from, to);
    case DType::kInt64:
      return fold_signed<int64_t, uint64_t>(op, from, to);
    default:
      return fold_floats(type, op, from, to);
  }
}

class Model {
 public:
  Model(const ccl::Schedule& schedule, const std::vector<Bytes>& inputs) : shape_(schedule.shape) {
    for (uint32_t r = 0; r < shape_.ranks; ++r) {
      ranks_.push_back({inputs[r], Bytes(shape_.request.output_bytes), Bytes(shape_.channel_bytes),
                        std::vector<uint64_t>(shape_.events.size()),
                        std::vector<std::deque<ccl::Step>>(shape_.channels)});
      for (ccl::Step& step : schedule.steps(r)) {
        ranks_[r].waiting[step.channel].push_back(std::move(step));
      }
    }
  }

  std::vector<Bytes> run() {
    while (advance()) {
    }
    std::vector<Bytes> outputs;
    for (Rank& rank : ranks_) {
      for (const auto& steps : rank.waiting) {
        if (!steps.empty()) return {};
      }
      outputs.push_back(std::move(rank.output));
    }
    return outputs;
  }

 private:
  struct Rank {
    Bytes input;
    Bytes output;
    Bytes channel;
    std::vector<uint64_t> signals;               // by event
    std::vector<std::deque<ccl::Step>> waiting;  // by channel
  };

  // Every step that can run, once round.
  bool advance() {
    bool any = false;
    for (Rank& rank : ranks_) {
      for (std::deque<ccl::Step>& steps : rank.waiting) {
        while (!steps.empty() && ready(rank, steps.front())) {
          run(&rank, steps.front());
          steps.pop_front();
          any = true;
        }
      }
    }
    return any;
  }

  static bool ready(const Rank& rank, const ccl::Step& step) {
    for (const ccl::Wait& wait : step.waits) {
      if (rank.signals[wait.event] < wait.signals) return false;
    }
    return true;
  }

  void run(Rank* rank, const ccl::Step& step) {
    for (const ccl::Wait& wait : step.waits) rank->signals[wait.event] -= wait.signals;
    if (step.bytes != 0) move(step);
    for (const ccl::Signal& signal : step.signals) ++ranks_[signal.rank].signals[signal.event];
  }

  void move(const ccl::Step& step) {
    const DType type = shape_.request.dtype;
    Bytes result(step.bytes);
    if (step.sources.size() == 1) {
      std::memcpy(result.data(), at(step.sources[0]), step.bytes);
    } else {
      const uint32_t width = contract::dtype_size(type);
      std::vector<const uint8_t*> from(step.sources.size());
      for (uint64_t i = 0; i < step.bytes; i += width) {
        for (size_t s = 0; s < from.size(); ++s) from[s] = at(step.sources[s]) + i;
        fold_element(type, shape_.request.op, from, result.data() + i);
      }
    }
    for (const ccl::Range& to : step.destinations) {
      std::memcpy(at(to), result.data(), step.bytes);
    }
  }

  uint8_t* at(const ccl::Range& range) {
    Rank& rank = ranks_[range.rank];
    switch (range.buffer) {
      case ccl::Buffer::kInput:
        return rank.input.data() + range.offset;
      case ccl::Buffer::kOutput:
        return rank.output.data() + range.offset;
      case ccl::Buffer::kChannel:
        return rank.channel.data() + range.offset;
      case ccl::Buffer::kMetadata:  // operations of variable size are not executed here
      case ccl::Buffer::kSecond:
        break;
    }
    return rank.input.data() + rank.input.size() / 2 + range.offset;
  }

  const ccl::Shape& shape_;
  std::vector<Rank> ranks_;
};

}  // namespace

std::vector<Bytes> execute(const ccl::Schedule& schedule, const std::vector<Bytes>& inputs) {
  return Model(schedule, inputs).run();
}

}  // namespace nccom
