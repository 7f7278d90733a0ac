// nccom-test: times collective operations (tools.md 2). Supported: all-reduce, all-gather and
// reduce-scatter on one instance, ranks as threads of one process or of several processes that
// meet through NEURON_RT_ROOT_COMM_ID (--x-rank-start, --x-local-ranks).
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <ctime>

#include "bench.h"
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

void choose_seed(Options* o) {
  if (o->check != Check::kRandom || o->seed_given) return;
  // Several processes must agree on the data without a message.
  o->seed = o->local_ranks < o->ranks ? 1 : static_cast<uint64_t>(std::time(nullptr));
  std::fprintf(stderr, "nccom-test: seed %llu\n", static_cast<unsigned long long>(o->seed));
}

int report(const Options& o, const std::vector<Row>& rows, unsigned errors) {
  if (errors != 0) {
    print(std::to_string(errors) + " errors found - test failed");
  } else {
    print(Table::average(rows));
  }
  if (!o.json_file.empty()) {
    FILE* file = std::fopen(o.json_file.c_str(), "w");
    const std::string text = json_report(o, rows);
    const bool written =
        file != nullptr && std::fwrite(text.data(), 1, text.size(), file) == text.size();
    if (file == nullptr || std::fclose(file) != 0 || !written) {
      std::fprintf(stderr, "nccom-test: cannot write %s\n", o.json_file.c_str());
      return 1;
    }
  }
  return errors == 0 ? 0 : 1;
}

int run(Options o) {
  choose_seed(&o);
  const std::vector<uint64_t> sizes = size_list(o);
  const base::Result<std::unique_ptr<Bench>> bench = Bench::open(o);
  if (!bench) {
    std::fprintf(stderr, "%s\n", bench.error().message().c_str());
    return 1;
  }
  const bool prints = o.rank_start == 0;
  const Table table(o, sizes);
  if (prints) print(table.header());
  std::vector<Row> rows;
  unsigned errors = 0;
  for (const uint64_t size : sizes) {
    if (o.debug) {
      std::fprintf(stderr, "nccom-test: %s of %llu bytes\n", long_name(o.operation),
                   static_cast<unsigned long long>(size));
    }
    const base::Result<Measurement> m = (*bench)->measure(size);
    if (m) {
      rows.push_back(evaluate(o, *m));
      if (prints) print(table.line(rows.back()));
      continue;
    }
    ++errors;
    const std::string what = m.error().message();
    print(table.failure(size, "Failure running neuron-bench - log file " + write_log(what)));
    std::fprintf(stderr, "nccom-test: %s\n", what.c_str());
  }
  if (!prints) return errors == 0 ? 0 : 1;
  return report(o, rows, errors);
}

}  // namespace
}  // namespace nccom

int main(int argc, char** argv) {
  const nccom::Parsed parsed = nccom::parse({argv + 1, argv + argc});
  if (!parsed.proceed) {
    std::fputs(parsed.text.c_str(), parsed.exit_code == 0 ? stdout : stderr);
    return parsed.exit_code;
  }
  return nccom::run(parsed.options);
}
