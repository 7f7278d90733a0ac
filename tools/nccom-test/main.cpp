// nccom-test: times collective operations (tools.md 2). Ranks are threads of one process or of
// several (mpirun, srun, --x-rank-start), which meet through NEURON_RT_ROOT_COMM_ID.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>

#include "bench.h"
#include "launch.h"
#include "matrix.h"
#include "options.h"
#include "table.h"

namespace nccom {
namespace {

void print(const std::string& line) {
  std::printf("%s\n", line.c_str());
  std::fflush(stdout);
}

// Keeps what went wrong with one size; returns the file's name.
std::string write_log(const std::string& text) {
  char name[] = "/tmp/nccom_test_log_XXXXXX.log";
  const int fd = ::mkstemps(name, 4);
  if (fd < 0) return "(none: cannot write to /tmp)";
  FILE* file = ::fdopen(fd, "w");
  if (file == nullptr) {
    ::close(fd);
    return "(none)";
  }
  std::fprintf(file, "%s\n", text.c_str());
  std::fclose(file);
  return name;
}

void choose_seed(std::vector<Options>* streams) {
  const Options& o = streams->front();
  bool random = false;
  for (const Options& each : *streams) random = random || each.check == Check::kRandom;
  if (!random || o.seed_given) return;
  // Several processes must agree on the data without a message.
  const uint64_t seed = o.local_ranks < o.ranks ? 1 : static_cast<uint64_t>(std::time(nullptr));
  for (Options& each : *streams) each.seed = seed;
  if (o.rank_start == 0) {
    std::fprintf(stderr, "nccom-test: seed %llu\n", static_cast<unsigned long long>(seed));
  }
}

bool write_file(const std::string& path, const std::string& text) {
  FILE* file = std::fopen(path.c_str(), "w");
  const bool written =
      file != nullptr && std::fwrite(text.data(), 1, text.size(), file) == text.size();
  if (file != nullptr && std::fclose(file) == 0 && written) return true;
  std::fprintf(stderr, "nccom-test: cannot write %s\n", path.c_str());
  return false;
}

// One run: sizes step by step, a block of lines per stream.
class Run {
 public:
  explicit Run(std::vector<Options> streams) : streams_(std::move(streams)), o_(streams_.front()) {
    for (const Options& o : streams_) {
      sizes_.push_back(size_list(o));
      tables_.emplace_back(o, sizes_.back());
      steps_ = std::max(steps_, sizes_.back().size());
    }
    rows_.resize(streams_.size());
    later_.resize(streams_.size());
    prints_ = o_.rank_start == 0;
  }

  int run() {
    const auto bench = Bench::open(streams_);
    if (!bench) {
      std::fprintf(stderr, "%s\n", bench.error().message().c_str());
      return 1;
    }
    if (prints_) print(tables_[0].header());
    for (size_t step = 0; step < steps_; ++step) measure(**bench, step);
    if (!prints_) return errors_ == 0 ? 0 : 1;
    for (size_t s = 0; s < streams_.size(); ++s) finish(s);
    return report();
  }

 private:
  // Streams with fewer sizes repeat their last one.
  uint64_t size_at(size_t stream, size_t step) const {
    return sizes_[stream][std::min(step, sizes_[stream].size() - 1)];
  }

  void measure(Bench& bench, size_t step) {
    std::vector<uint64_t> sizes;
    for (size_t s = 0; s < streams_.size(); ++s) sizes.push_back(size_at(s, step));
    if (o_.debug) {
      std::fprintf(stderr, "nccom-test: %s of %llu bytes\n", long_name(o_.operation),
                   static_cast<unsigned long long>(sizes[0]));
    }
    const auto measured = bench.measure(sizes);
    std::string failure;
    if (!measured) {
      ++errors_;
      const std::string what = measured.error().message();
      failure = "Failure running neuron-bench - log file " + write_log(what);
      std::fprintf(stderr, "nccom-test: %s\n", what.c_str());
    }
    for (size_t s = 0; s < streams_.size(); ++s) {
      std::string line;
      if (measured) {
        rows_[s].push_back(evaluate(streams_[s], (*measured)[s]));
        line = tables_[s].line(rows_[s].back());
      } else {
        line = tables_[s].failure(sizes[s], failure);
      }
      // Lines of the first stream appear as they are ready; blocks of the others follow it.
      if (s != 0) {
        later_[s].push_back(line);
      } else if (prints_ || !measured) {
        print(line);
      }
    }
  }

  void finish(size_t stream) const {
    if (stream != 0) {
      print(tables_[stream].header());
      for (const std::string& line : later_[stream]) print(line);
    }
    if (errors_ == 0) print(Table::average(rows_[stream]));
  }

  int report() const {
    if (errors_ != 0) print(std::to_string(errors_) + " errors found - test failed");
    bool good = errors_ == 0;
    if (!o_.json_file.empty()) {
      good = write_file(o_.json_file, json_report(streams_, rows_)) && good;
    }
    if (!o_.csv_file.empty()) good = write_file(o_.csv_file, csv_report(streams_, rows_)) && good;
    return good ? 0 : 1;
  }

  std::vector<Options> streams_;
  const Options& o_;  // what concerns the job
  std::vector<std::vector<uint64_t>> sizes_;
  std::vector<Table> tables_;
  std::vector<std::vector<Row>> rows_;
  std::vector<std::vector<std::string>> later_;
  size_t steps_ = 0;
  bool prints_ = true;
  unsigned errors_ = 0;
};

}  // namespace
}  // namespace nccom

int main(int argc, char** argv) {
  nccom::Parsed parsed = nccom::parse({argv + 1, argv + argc});
  if (!parsed.proceed) {
    std::fputs(parsed.text.c_str(), parsed.exit_code == 0 ? stdout : stderr);
    return parsed.exit_code;
  }
  const nccom::Options& o = parsed.streams.front();
  if (!nccom::place_of_process(&parsed.streams) && o.nodes > 1 && o.local_ranks == o.ranks) {
    const base::Error error = nccom::launch(o, {argv, argv + argc});
    std::fprintf(stderr, "%s\n", error.message().c_str());
    return error.code;
  }
  if (o.matrix) return nccom::run_matrix({argv + 1, argv + argc}, o);
  nccom::choose_seed(&parsed.streams);
  return nccom::Run(std::move(parsed.streams)).run();
}
