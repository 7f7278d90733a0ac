// What text and page of `soma report` share.
#pragma once

#include <string>
#include <vector>

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
    {"memory", "memory", "waits for a memory in use", "#4f8f6f"}};
constexpr const char* kBusyColour = "#2f6fab";

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

}  // namespace soma
