// The two programs of spec/collectives.md 8, item 10, as a synthesiser would write them.
#pragma once

#include <string>

namespace ccl {

class MscclText {
 public:
  MscclText(const std::string& name, uint32_t ranks, uint32_t chunks, bool in_place)
      : in_place_(in_place) {
    out_ = "<algo name=\"" + name + "\" proto=\"Simple\" nchannels=\"1\" nchunksperloop=\"" +
           std::to_string(chunks) + "\" ngpus=\"" + std::to_string(ranks) +
           "\" coll=\"allreduce\" inplace=\"" + (in_place ? "1" : "0") + "\">\n";
  }

  void gpu(uint32_t id, uint32_t chunks, uint32_t scratch) {
    end_gpu();
    out_ += "<gpu id=\"" + std::to_string(id) + "\" i_chunks=\"" + std::to_string(chunks) +
            "\" o_chunks=\"" + std::to_string(in_place_ ? 0 : chunks) + "\" s_chunks=\"" +
            std::to_string(scratch) + "\">\n";
    open_gpu_ = true;
  }
  void tb(uint32_t id, int send, int recv) {
    end_tb();
    out_ += "<tb id=\"" + std::to_string(id) + "\" send=\"" + std::to_string(send) + "\" recv=\"" +
            std::to_string(recv) + "\" chan=\"" + (send == -1 && recv == -1 ? "-1" : "0") + "\">\n";
    open_tb_ = true;
    steps_ = 0;
  }
  // Buffers: "i", "o" or "s"; programs in place call the output i.
  void step(const std::string& type, const std::string& src, uint32_t src_chunk,
            const std::string& dst, uint32_t dst_chunk, int dep_tb = -1, int dep_step = -1) {
    out_ += "<step s=\"" + std::to_string(steps_++) + "\" type=\"" + type + "\" srcbuf=\"" +
            name(src) + "\" srcoff=\"" + std::to_string(src_chunk) + "\" dstbuf=\"" + name(dst) +
            "\" dstoff=\"" + std::to_string(dst_chunk) + "\" cnt=\"" + (type == "nop" ? "0" : "1") +
            "\" depid=\"" + std::to_string(dep_tb) + "\" deps=\"" + std::to_string(dep_step) +
            "\" hasdep=\"0\"/>\n";
  }
  std::string take() {
    end_gpu();
    return out_ + "</algo>\n";
  }

 private:
  std::string name(const std::string& buffer) const {
    return in_place_ && buffer == "o" ? "i" : buffer;
  }
  void end_tb() {
    if (open_tb_) out_ += "</tb>\n";
    open_tb_ = false;
  }
  void end_gpu() {
    end_tb();
    if (open_gpu_) out_ += "</gpu>\n";
    open_gpu_ = false;
  }

  bool in_place_;
  bool open_gpu_ = false;
  bool open_tb_ = false;
  uint32_t steps_ = 0;
  std::string out_;
};

inline std::string msccl_ring(uint32_t n, bool in_place) {
  MscclText text("ring", n, n, in_place);
  for (uint32_t r = 0; r < n; ++r) {
    text.gpu(r, n, 0);
    text.tb(0, static_cast<int>((r + 1) % n), static_cast<int>((r + n - 1) % n));
    text.step("s", "i", r, "i", r);
    const auto chunk = [&](uint32_t back) { return (r + 2 * n - back) % n; };
    for (uint32_t t = 1; t + 1 < n; ++t) text.step("rrs", "i", chunk(t), "i", chunk(t));
    text.step("rrcs", "i", chunk(n - 1), "o", chunk(n - 1));
    for (uint32_t t = 0; t + 2 < n; ++t) text.step("rcs", "i", chunk(t), "o", chunk(t));
    text.step("r", "i", 0, "o", chunk(n - 2));
  }
  return text.take();
}

// Every rank sends chunk p to rank p, which folds what came into its scratch, and sends the sum.
inline std::string msccl_all_pairs(uint32_t n, bool in_place) {
  MscclText text("allpairs", n, n, in_place);
  for (uint32_t r = 0; r < n; ++r) {
    const auto last = static_cast<int>(n - 1);  // the block that folds
    text.gpu(r, n, n - 1);
    for (uint32_t k = 0; k + 1 < n; ++k) {
      const uint32_t peer = k < r ? k : k + 1;
      text.tb(k, static_cast<int>(peer), static_cast<int>(peer));
      text.step("s", "i", peer, "i", peer);
      text.step("r", "i", 0, "s", k);
      text.step("s", "o", r, "o", r, last, static_cast<int>(2 * (n - 1)));
      text.step("r", "i", 0, "o", peer);
    }
    text.tb(n - 1, -1, -1);
    for (int k = 0; k + 1 < static_cast<int>(n); ++k) text.step("nop", "i", 0, "i", 0, k, 1);
    text.step("cpy", "i", r, "o", r);
    for (uint32_t k = 0; k + 1 < n; ++k) text.step("re", "s", k, "o", r);
  }
  return text.take();
}

}  // namespace ccl
