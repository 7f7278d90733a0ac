#include "matrix.h"

#include <nrt/nrt_status.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "bench.h"

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
    const auto bench = Bench::open({job_});
    if (!bench) {
      std::fprintf(stderr, "%s\n", bench.error().message().c_str());
      return 1;
    }
    for (const Entry& entry : entries()) {
      for (const char* kind : entry.kinds) try_one(**bench, entry, kind);
    }
    return failures_ == 0 ? 0 : 1;
  }

 private:
  void try_one(Bench& bench, const Entry& entry, const char* kind) {
    std::vector<std::string> arguments = arguments_;
    arguments.insert(arguments.end(), {"--x-operation", entry.operation});
    if (entry.form == Form::kSbuf) arguments.push_back("--sb2sb");
    const Parsed parsed = parse(arguments);
    if (!parsed.proceed) {  // an odd number of ranks has no pairs
      return print(entry, kind, "refused  by the tool");
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
    // What the runtime logs from here on is about this one.
    std::fprintf(stderr, "nccom-test: %s with %s\n", entry.operation, kind);
    bench.use({o});
    const auto measured = bench.measure({size_list(o).front()});
    if (!measured) return complain(entry, kind, measured.error());
    const Row row = evaluate(o, measured->front());
    print(entry, kind, "ok       " + format_time(row.times_us.front()) + " us");
  }

  void complain(const Entry& entry, const char* kind, const base::Error& error) {
    if (error.code == NRT_INVALID) return print(entry, kind, "refused  " + error.message());
    ++failures_;
    print(entry, kind, "FAILED   " + error.message());
  }

  void print(const Entry& entry, const char* kind, const std::string& result) const {
    if (job_.rank_start != 0) return;
    const std::string place = entry.form == Form::kSbuf ? "_sbuf" : "";
    std::printf("%-24s%-11s%s\n", (entry.operation + place).c_str(), kind, result.c_str());
    std::fflush(stdout);
  }

  const std::vector<std::string>& arguments_;
  const Options& job_;
  unsigned failures_ = 0;
};

}  // namespace

int run_matrix(const std::vector<std::string>& arguments, const Options& job) {
  return Matrix(arguments, job).run();
}

}  // namespace nccom
