#include "tools/soma/sweep.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "arch/config/embedded.h"
#include "base/fd.h"
#include "base/file.h"
#include "tools/soma/options.h"
#include "tools/soma/sweep_data.h"
#include "tools/soma/sweep_grid.h"
#include "tools/soma/sweep_run.h"

namespace soma {
namespace {

std::vector<SweepSeries> series_of(const std::vector<SweepCase>& grid) {
  std::vector<SweepSeries> series;
  for (const SweepCase& of : grid) series.push_back(of.series);
  return series;
}

bool write(const std::string& path, const std::string& text) {
  if (path == "-") {
    fmt::print("{}", text);
    return true;
  }
  const base::Status written = base::replace_file(path, text);
  if (!written) complain(written.error().message());
  return written.ok();
}

// Leaves the file as it is.
bool can_write(const std::string& path) {
  base::UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  if (!fd.valid() && errno == ENOENT) {
    fd.reset(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    if (fd.valid()) ::unlink(path.c_str());
  }
  if (!fd.valid()) complain(path + ": cannot write: " + std::strerror(errno));
  return fd.valid();
}

bool is_file(const std::string& path) {
  return !path.empty() && path != "-";
}

// Points that an interrupted sweep, or one of fewer points, has left in the CSV file.
base::Status resume(const std::string& path, std::vector<SweepCase>* grid) {
  if (!is_file(path)) {
    return base::Error{base::Fault::kConfig, 2, "--resume", "needs the CSV file: --csv FILE"};
  }
  const auto text = base::read_file(path);
  if (!text && text.error().code == ENOENT) return {};  // nothing yet
  if (!text) return text.error();
  std::vector<SweepSeries> series = series_of(*grid);
  const auto taken = take_measured(*text, &series);
  if (!taken) return taken.error();
  for (size_t i = 0; i < grid->size(); ++i) (*grid)[i].series = std::move(series[i]);
  fmt::print(stderr, "soma: {} points are in {}\n", *taken, path);
  return {};
}

class Sweep {
 public:
  explicit Sweep(const SweepOptions& options) : o_(options) {}

  int run() {
    auto grid = make_grid(o_);
    if (!grid) return usage(grid.error());
    auto published = parse_published(
        std::string(config::embedded_text("calibration/collectives.csv").value_or("")));
    if (!published) return usage(published.error());
    if (o_.resume) {
      if (const base::Status resumed = resume(o_.csv, &*grid); !resumed) {
        return usage(resumed.error());
      }
    }
    // A place that cannot be written is known before the work, and a killed sweep leaves its
    // points.
    for (const std::string& path : {o_.html, o_.svg}) {
      if (is_file(path) && !can_write(path)) return 1;
    }
    const auto keep = [&] {
      return !is_file(o_.csv) || write(o_.csv, sweep_csv(series_of(*grid)));
    };
    if (!keep()) return 1;
    const auto ran = run_grid(o_, &*grid, [&] { (void)keep(); });
    if (!ran) {
      complain(ran.error().message());
      return exit_code(ran.error().fault);
    }
    if (!finish(series_of(*grid), *published)) return 1;
    return *ran == 0 ? 0 : 128 + *ran;
  }

 private:
  static int usage(const base::Error& error) {
    complain(error.message());
    return kExitUsage;
  }
  // False if something failed: a point, or a file.
  bool finish(const std::vector<SweepSeries>& series,
              const std::vector<PublishedSeries>& published) const {
    bool good = true;
    const bool files = !o_.csv.empty() || !o_.html.empty() || !o_.svg.empty();
    if (o_.csv != "-") write("-", files ? sweep_tables(series) : sweep_csv(series));
    if (!o_.csv.empty()) good = write(o_.csv, sweep_csv(series)) && good;
    if (!o_.html.empty()) {
      good = write(o_.html, sweep_page(o_.title, o_.command_line, series, published)) && good;
    }
    if (!o_.svg.empty()) good = write(o_.svg, sweep_svg(o_.title, series, published)) && good;
    return good && std::none_of(series.begin(), series.end(), [](const SweepSeries& s) {
             return std::any_of(s.rows.begin(), s.rows.end(),
                                [](const SweepRow& r) { return !r.error.empty(); });
           });
  }

  const SweepOptions& o_;
};

}  // namespace

int sweep(const SweepOptions& options) {
  return Sweep(options).run();
}

}  // namespace soma
