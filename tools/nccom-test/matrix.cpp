#include "matrix.h"

#include <nrt/nrt_status.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "bench.h"
#include "runtime_log.h"

namespace nccom {
namespace {

enum class Form { kPlain, kSbuf, kVariable };

struct Entry {
  const char* operation;
  const char* name;  // in NCCOM_CC_ALGO
  // Algorithms; of variable sizes, which have only one, the kinds of blocks: as they are without
  // metadata, of every length, of every length where the receiver wants them.
  std::vector<const char*> kinds;
  Form form = Form::kPlain;
};

const std::vector<Entry>& entries() {
  static const std::vector<const char*> kAll = {"ring", "mesh",     "rdh", "kangaring",
                                                "hier", "flatring", "tree"};
  static const std::vector<Entry> kEntries = {
      {"all_reduce", "allr", kAll},
      {"all_gather", "allg", kAll},
      {"reduce_scatter", "redsct", kAll},
      {"alltoall", "alltoall", {"ring", "mesh", "pairwise"}},
      {"permute", "permute", {"ring"}},
      {"sendrecv", "permute", {"ring"}},
      {"permute_reduce", "permute_reduce", {"ring"}},
      {"permute_implicit", "permute", {"ring"}},
      {"permute_reduce_implicit", "permute_reduce", {"ring"}},
      {"broadcast", "bcast", {"tree"}},
      {"reduce", "reduce", {"tree"}},
      {"barrier", "barrier", {"tree"}},
      {"all_reduce", "allr", kAll, Form::kSbuf},
      {"all_gather", "allg", kAll, Form::kSbuf},
      {"reduce_scatter", "redsct", kAll, Form::kSbuf},
      {"all_gatherv", "all_gather_v", {"equal", "uneven", "placed"}, Form::kVariable},
      {"alltoallv", "all_to_all_v", {"equal", "uneven", "placed"}, Form::kVariable},
      {"reduce_scatterv", "reduce_scatter_v", {"equal", "uneven"}, Form::kVariable},
  };
  return kEntries;
}

class Matrix {
 public:
  Matrix(const std::vector<std::string>& arguments, const Options& job)
      : arguments_(arguments), job_(job) {}

  int run() {
    base::Result<RuntimeLog> log = RuntimeLog::open();
    if (!log) return give_up(log.error());
    log_ = std::move(*log);
    const auto bench = Bench::open({job_});
    if (!bench) return give_up(bench.error());
    print("operation", "with", "result");
    for (const Entry& entry : entries()) {
      for (const char* kind : entry.kinds) try_one(**bench, entry, kind);
    }
    print_totals();
    return failed_ == 0 ? 0 : 1;
  }

 private:
  // The runtime's own complaints come first: they say why.
  int give_up(const base::Error& error) {
    std::fprintf(stderr, "%s%s\n", log_.take().c_str(), error.message().c_str());
    return 1;
  }

  void try_one(Bench& bench, const Entry& entry, const char* kind) {
    std::vector<std::string> arguments = arguments_;
    arguments.insert(arguments.end(), {"--x-operation", entry.operation});
    if (entry.form == Form::kSbuf) arguments.push_back("--sb2sb");
    const Parsed parsed = parse(arguments);
    if (!parsed.proceed) {  // an odd number of ranks has no pairs
      return refuse(entry, kind, "by the tool: " + last_line(parsed.text));
    }
    Options o = parsed.streams.front();
    o.rank_start = job_.rank_start;
    o.local_ranks = job_.local_ranks;
    if (o.check == Check::kOff) o.check = Check::kRandom;
    const bool variable = entry.form == Form::kVariable;
    if (variable && std::strcmp(kind, "equal") != 0) {
      o.metadata = uneven_metadata(o, size_list(o).front(), std::strcmp(kind, "placed") == 0);
    }
    const std::string choice = std::string(entry.name) + ":" + (variable ? "mesh" : kind);
    ::setenv("NCCOM_CC_ALGO", choice.c_str(), 1);
    bench.use({o});
    const auto measured = bench.measure({size_list(o).front()});
    const std::string log = log_.take();
    if (!measured && measured.error().code == NRT_INVALID) {
      const std::string reason = refusal_in(log);
      return refuse(entry, kind, reason.empty() ? measured.error().message() : reason);
    }
    // Nobody expected what is left in the log.
    if (!log.empty()) {
      std::fprintf(stderr, "nccom-test: %s with %s:\n%s", name_of(entry).c_str(), kind,
                   log.c_str());
    }
    if (!measured) {
      ++failed_;
      return print(name_of(entry), kind, "FAILED   " + measured.error().message());
    }
    ++good_;
    const Row row = evaluate(o, measured->front());
    print(name_of(entry), kind, "ok       " + format_time(row.times_us.front()) + " us");
  }

  void refuse(const Entry& entry, const char* kind, const std::string& reason) {
    ++refused_;
    print(name_of(entry), kind, "refused  " + reason);
  }

  static std::string name_of(const Entry& entry) {
    return std::string(entry.operation) + (entry.form == Form::kSbuf ? "_sbuf" : "");
  }

  // Of a message that begins with the usage.
  static std::string last_line(std::string text) {
    while (!text.empty() && text.back() == '\n') text.pop_back();
    return text.substr(text.rfind('\n') + 1);
  }

  void print(const std::string& name, const char* kind, const std::string& result) const {
    if (job_.rank_start != 0) return;
    std::printf("%-24s%-11s%s\n", name.c_str(), kind, result.c_str());
    std::fflush(stdout);
  }

  void print_totals() const {
    if (job_.rank_start != 0) return;
    std::printf("%u ok, %u refused, %u failed\n", good_, refused_, failed_);
  }

  const std::vector<std::string>& arguments_;
  const Options& job_;
  RuntimeLog log_;
  unsigned good_ = 0;
  unsigned refused_ = 0;
  unsigned failed_ = 0;
};

}  // namespace

int run_matrix(const std::vector<std::string>& arguments, const Options& job) {
  return Matrix(arguments, job).run();
}

}  // namespace nccom
