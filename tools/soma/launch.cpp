#include "tools/soma/launch.h"

#include <algorithm>
#include <charconv>
#include <map>

namespace soma::launch {
namespace {

base::Error usage(const std::string& where, const std::string& what) {
  return {base::Fault::kUsage, 0, where, what};
}

const Option* find(const std::vector<Option>& options, const std::string& name) {
  for (const Option& option : options) {
    if (std::find(option.names.begin(), option.names.end(), name) != option.names.end()) {
      return &option;
    }
  }
  return nullptr;
}

}  // namespace

base::Status take_options(Words& words, const std::vector<Option>& options) {
  size_t at = 0;
  for (; at < words.size() && words[at].size() > 1 && words[at][0] == '-'; ++at) {
    const std::string word = words[at];
    if (word == "--") {
      ++at;
      break;
    }
    const bool dashes = word[1] == '-';
    const size_t equal = word.find('=');
    std::string name = word.substr(dashes ? 2 : 1, equal - (dashes ? 2 : 1));
    std::string value = equal == std::string::npos ? "" : word.substr(equal + 1);
    bool attached = equal != std::string::npos;
    const Option* option = find(options, name);
    if (option == nullptr && !dashes) {  // -N4
      name = word.substr(1, 1);
      option = find(options, name);
      value = word.substr(2);
      attached = option != nullptr && option->value;
      // -tt: the same letter again
      if (!attached && value.find_first_not_of(name) != std::string::npos) option = nullptr;
    }
    if (option == nullptr) return usage(word, "this option is not supported here");
    if (option->value && !attached) {
      if (++at >= words.size()) return usage(word, "needs a value");
      value = words[at];
    }
    if (option->pair && ++at >= words.size()) return usage(word, "needs two values");
    if (!option->action) continue;
    base::Status done = option->action(value);
    if (!done) return done;
  }
  words.erase(words.begin(), words.begin() + static_cast<std::ptrdiff_t>(at));
  return {};
}

base::Result<uint32_t> count_of(const std::string& text, const std::string& what) {
  constexpr uint32_t kMost = 4096;
  uint32_t number = 0;
  const char* end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, number);
  if (parsed.ec != std::errc() || parsed.ptr != end || number == 0 || number > kMost) {
    return usage(what, "'" + text + "' is not a number from 1 to " + std::to_string(kMost));
  }
  return number;
}

base::Status store_count(uint32_t& to, const std::string& text, const std::string& what) {
  const auto count = count_of(text, what);
  if (!count) return count.error();
  to = *count;
  return {};
}

base::Result<Words> expand_hosts(const std::string& list) {
  constexpr uint32_t kMost = 1024;
  Words hosts;
  size_t at = 0;
  while (at < list.size()) {
    size_t end = at;
    for (bool inside = false; end < list.size() && (inside || list[end] != ','); ++end) {
      inside = list[end] == '[' || (inside && list[end] != ']');
    }
    const std::string item = list.substr(at, end - at);
    at = end + 1;
    const size_t open = item.find('[');
    if (open == std::string::npos) {
      if (!item.empty()) hosts.push_back(item);
      continue;
    }
    if (item.back() != ']') return usage(item, "is not a list of hosts");
    for (size_t from = open + 1; from < item.size();) {
      const size_t stop = item.find_first_of(",]", from);
      uint32_t first = 0;
      const char* text = item.data() + from;
      const char* limit = item.data() + stop;
      auto parsed = std::from_chars(text, limit, first);
      uint32_t last = first;
      if (parsed.ec == std::errc() && parsed.ptr != limit && *parsed.ptr == '-') {
        parsed = std::from_chars(parsed.ptr + 1, limit, last);
      }
      if (parsed.ec != std::errc() || parsed.ptr != limit || last < first || last >= kMost) {
        return usage(item, "is not a list of hosts");
      }
      for (uint32_t n = first; n <= last; ++n) {
        hosts.push_back(item.substr(0, open) + std::to_string(n));
      }
      from = stop + 1;
    }
  }
  return hosts;
}

base::Result<std::vector<uint32_t>> nodes_of(const Running& machine, const Words& hosts) {
  std::vector<uint32_t> nodes;
  std::map<std::string, uint32_t> strangers;
  uint32_t next = 0;
  for (const std::string& host : hosts) {
    auto node = is_loopback(host) ? std::nullopt : machine.node_of(host, own_node());
    if (!node && strangers.count(host) != 0 && !is_loopback(host)) node = strangers[host];
    if (!node) {
      node = next++;
      strangers[host] = *node;
    }
    if (*node >= machine.nodes()) {
      return usage(host, "the machine has " + std::to_string(machine.nodes()) +
                             (machine.nodes() == 1 ? " node" : " nodes, node-0, node-1, ..."));
    }
    nodes.push_back(*node);
  }
  return nodes;
}

Words on_node(Words environment, uint32_t node) {
  set_variable(environment, "SOMA_NODE", std::to_string(node));
  return environment;
}

}  // namespace soma::launch
