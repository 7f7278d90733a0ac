// nccom-test: times collective operations (spec/tools.md 2). Ranks are threads of one process or of
// several (mpirun, srun, --x-rank-start), which meet through NEURON_RT_ROOT_COMM_ID.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <exception>
#include <functional>

#include "base/file.h"
#include "bench.h"
#include "collector.h"
#include "console.h"
#include "launch.h"
#include "matrix.h"
#include "options.h"
#include "table.h"

namespace nccom {
namespace {

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

int complain(const base::Error& error) {
  std::fprintf(stderr, "%s\n", error.message().c_str());
  return error.code == 2 ? 2 : 1;
}

bool write_file(const std::string& path, const std::string& text) {
  FILE* file = std::fopen(path.c_str(), "w");
  const bool written =
      file != nullptr && std::fwrite(text.data(), 1, text.size(), file) == text.size();
  if (file != nullptr && std::fclose(file) == 0 && written) return true;
  std::fprintf(stderr, "nccom-test: cannot write %s\n", path.c_str());
  return false;
}

using Measure =
    std::function<base::Result<std::vector<Measurement>>(const std::vector<uint64_t>& sizes)>;

// One run: sizes step by step, a block of lines per stream.
class Run {
 public:
  Run(std::vector<Options> streams, const Console& console)
      : streams_(std::move(streams)), o_(streams_.front()), console_(console) {
    for (const Options& o : streams_) {
      sizes_.push_back(size_list(o));
      tables_.emplace_back(o, sizes_.back());
      steps_ = std::max(steps_, sizes_.back().size());
    }
    rows_.resize(streams_.size());
    later_.resize(streams_.size());
    prints_ = o_.rank_start == 0;
  }

  int run(const Measure& measure) {
    if (prints_) console_.print(tables_[0].header());
    for (size_t step = 0; step < steps_; ++step) take(measure, step);
    if (!prints_) return errors_ == 0 ? 0 : 1;
    for (size_t s = 0; s < streams_.size(); ++s) finish(s);
    return report();
  }

  // As an instance of a job: another process prints.
  int run(const Measure& measure, Reporter* reporter) {
    for (size_t step = 0; step < steps_; ++step) {
      const std::vector<uint64_t> sizes = sizes_at(step);
      const auto measured = measure(sizes);
      if (!measured || !o_.mpi_log_dir.empty()) {
        const std::string what = measured ? "measured" : measured.error().message();
        std::fprintf(stderr, "nccom-test: %s of %llu bytes: %s\n", long_name(o_.operation),
                     static_cast<unsigned long long>(sizes[0]), what.c_str());
      }
      if (base::Status status = reporter->send(measured); !status) return complain(status.error());
    }
    return 0;  // whatever went wrong has been reported
  }

 private:
  // Streams with fewer sizes repeat their last one.
  uint64_t size_at(size_t stream, size_t step) const {
    return sizes_[stream][std::min(step, sizes_[stream].size() - 1)];
  }

  std::vector<uint64_t> sizes_at(size_t step) const {
    std::vector<uint64_t> sizes;
    for (size_t s = 0; s < streams_.size(); ++s) sizes.push_back(size_at(s, step));
    return sizes;
  }

  void take(const Measure& measure, size_t step) {
    const std::vector<uint64_t> sizes = sizes_at(step);
    if (o_.debug) {
      std::fprintf(stderr, "nccom-test: %s of %llu bytes\n", long_name(o_.operation),
                   static_cast<unsigned long long>(sizes[0]));
    }
    const auto measured = [&] {
      const Animation animation(prints_ && console_.animated());
      return measure(sizes);
    }();
    std::string failure;
    if (!measured) {
      ++errors_;
      const std::string what = measured.error().message();
      failure = "Failure running neuron-bench - log file " + console_.write_log(what);
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
        console_.print(line);
      }
    }
  }

  void finish(size_t stream) const {
    if (stream != 0) {
      console_.print(tables_[stream].header());
      for (const std::string& line : later_[stream]) console_.print(line);
    }
    if (errors_ == 0) console_.print(Table::average(rows_[stream]));
  }

  int report() const {
    if (errors_ != 0) console_.print(std::to_string(errors_) + " errors found - test failed");
    bool good = errors_ == 0;
    if (!o_.json_file.empty()) {
      good = write_file(o_.json_file, json_report(streams_, rows_)) && good;
    }
    if (!o_.csv_file.empty()) good = write_file(o_.csv_file, csv_report(streams_, rows_)) && good;
    return good ? 0 : 1;
  }

  std::vector<Options> streams_;
  const Options& o_;  // what concerns the job
  const Console& console_;
  std::vector<std::vector<uint64_t>> sizes_;
  std::vector<Table> tables_;
  std::vector<std::vector<Row>> rows_;
  std::vector<std::vector<std::string>> later_;
  size_t steps_ = 0;
  bool prints_ = true;
  unsigned errors_ = 0;
};

constexpr const char* kCollector = "NCCOM_DATA_COLLECTOR";

// Starts the instances and prints what they measure.
int lead(std::vector<Options> streams, const Console& console, std::vector<std::string> command) {
  const Options& o = streams.front();
  if (!o.seed_given) command.insert(command.end(), {"--seed", std::to_string(o.seed)});
  const auto collector = Collector::open(o, streams.size());
  if (!collector) return complain(collector.error());
  ::setenv(kCollector, (*collector)->address().c_str(), 1);
  const auto launcher = launch(o, command);
  if (!launcher) return complain(launcher.error());
  if (base::Status met = (*collector)->meet(*launcher); !met) {
    const int code = wait_for(*launcher);
    return code != 0 ? code : complain(met.error());
  }
  const int code = Run(std::move(streams), console).run([&](const std::vector<uint64_t>& sizes) {
    return (*collector)->measure(sizes);
  });
  const int launched = wait_for(*launcher);
  return code != 0 ? code : launched;
}

// Starts the instances, which do everything else.
int start_all(const Options& o, const std::vector<std::string>& command) {
  const auto launcher = launch(o, command);
  return launcher ? wait_for(*launcher) : complain(launcher.error());
}

// The ranks of this process, alone or with those of others.
int take_part(std::vector<Options> streams, const Console& console, const char* collector) {
  for (Options& o : streams) o.collected = collector != nullptr;
  const auto bench = Bench::open(streams);
  if (!bench) return complain(bench.error());
  const Measure measure = [&](const std::vector<uint64_t>& sizes) {
    return (*bench)->measure(sizes);
  };
  const uint32_t rank_start = streams.front().rank_start;
  Run run(std::move(streams), console);
  if (collector == nullptr) return run.run(measure);
  auto reporter = Reporter::connect(collector, rank_start);
  if (!reporter) return complain(reporter.error());
  return run.run(measure, &*reporter);
}

int command(int argc, char** argv) {
  Parsed parsed = parse({argv + 1, argv + argc});
  if (!parsed.proceed) {
    std::fputs(parsed.text.c_str(), parsed.exit_code == 0 ? stdout : stderr);
    return parsed.exit_code;
  }
  const Options& o = parsed.streams.front();
  const auto place = place_of_process(&parsed.streams);
  if (!place) return complain(place.error());
  const bool placed = *place;
  const bool elsewhere = o.nodes > 1 || o.slurm || !o.hosts.empty();
  const bool leads = !placed && elsewhere && o.local_ranks == o.ranks;
  const auto console = Console::open(o, leads);
  if (!console) return complain(console.error());
  if (o.matrix)
    return leads ? start_all(o, {argv, argv + argc}) : run_matrix({argv + 1, argv + argc}, o);
  choose_seed(&parsed.streams);
  if (leads) return lead(std::move(parsed.streams), *console, {argv, argv + argc});
  const char* collector = placed ? std::getenv(kCollector) : nullptr;
  return take_part(std::move(parsed.streams), *console, collector);
}

}  // namespace
}  // namespace nccom

int main(int argc, char** argv) {
  try {
    const int code = nccom::command(argc, argv);
    const base::Status printed = base::flush_stdout();
    return printed || code != 0 ? code : nccom::complain(printed.error());
  } catch (const std::exception& error) {  // out of memory, or a defect
    std::fprintf(stderr, "nccom-test: %s\n", error.what());
    return 1;
  }
}
