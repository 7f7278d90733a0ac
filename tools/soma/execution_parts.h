// What text and page of `soma report` share.
#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "tools/soma/execution_view.h"

namespace soma {

struct StallCause {
  const char* name;  // in the report
  const char* title;
  const char* explanation;
  const char* colour;
};
constexpr StallCause kStallCauses[] = {
    {"semaphore", "engine", "waits for another engine", "#d08a2e"},
    {"dma", "DMA", "waits for DMA or the host", "#b04a3a"},
    {"dependency", "own result", "waits for a result of its own", "#8a6bb0"},
    {"memory", "SBUF", "waits for SBUF, in use by another engine", "#4f8f6f"},
    {"psum", "PSUM", "waits for PSUM, in use by another engine", "#2f7f8f"},
    {"issue", "issue", "waits for its first instructions", "#8f8f6f"},
    {"throttle", "throttle", "is held back by a limit of power", "#c05fa0"}};
constexpr const char* kBusyColour = "#2f6fab";
constexpr size_t kHotLines = 10;
constexpr size_t kLongWaits = 5;

double percent(double part, double whole);
std::string duration_text(double ps);
std::string title_of(const ExecutionView& e);
std::string times_of(const ExecutionView& e);
// The lines about rates and the roofline.
std::vector<std::string> rates_of(const ExecutionView& e);
double stalled(const EngineView& engine, const StallCause& cause);
double idle(const EngineView& engine, double total);
std::string critical_text(const ExecutionView& e);
std::string bytes_text(const EngineView& engine);
// "act 37.9 %, dve 2.0 %", of `total`; largest first.
std::string shares_text(const Shares& shares, double total);
Shares sorted(Shares values);
Shares shares(const nlohmann::ordered_json& object);

// execution_profile.cpp: what `soma run --profile` adds.
void parse_profile(const nlohmann::ordered_json& profile, ExecutionView* view);
// At most `count`: those that kept their engine busy longest, or waited longest.
std::vector<const LineView*> hot_lines(const ExecutionView& e, size_t count);
std::vector<const LineView*> waiting_lines(const ExecutionView& e, size_t count);
std::string lines_text(const ExecutionView& e);
std::string lines_table(const ExecutionView& e);

// Parts of a page; empty if there is nothing to draw.
std::string roofline_svg(const std::vector<ExecutionView>& executions);
std::string timeline_svg(const ExecutionView& e, const Window& window);
// What the colours and heights of a timeline mean, and what was left out.
std::string timeline_notes(const TimelineView& timeline);

}  // namespace soma
