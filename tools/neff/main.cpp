// neff: lists, unpacks, packs, assembles and disassembles NEFF files (spec/neff.md 1.11). It needs
// no device. Exit code 0: done; 1: a file is bad or cannot be read or written; 2: wrong command
// line.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <iostream>
#include <random>

#include "base/file.h"
#include "neff_loader/asm.h"
#include "neff_loader/neff.h"
#include "neff_loader/pack.h"
#include "tools/neff/files.h"
#include "tools/neff/info.h"

namespace {

namespace fs = std::filesystem;
using base::Status;

struct Arguments {
  std::string input;
  std::string output;
  tool::InfoOptions info;
  neff::PackOptions pack;
  unsigned lnc = 0;
  bool uncompressed = false;
  std::string uuid;
  std::string engine;
  std::string arch;
  std::string member;
};

base::Error usage(std::string what) {
  return {base::Fault::kUsage, 0, "", std::move(what)};
}

Status run_info(const Arguments& a) {
  auto file = tool::read_file(a.input);
  if (!file) return file.error();
  auto text = tool::describe(*file, a.info);
  if (!text) return text.error();
  std::cout << *text;
  return {};
}

Status run_unpack(const Arguments& a) {
  auto file = tool::read_file(a.input);
  if (!file) return file.error();
  auto unpacked = neff::unpack(*file);
  if (!unpacked) return unpacked.error();
  for (const std::string& w : unpacked->warnings) std::cerr << "warning: " << w << "\n";
  const fs::path directory = a.output.empty() ? fs::path(a.input).stem() : fs::path(a.output);
  std::vector<neff::Member> members = std::move(unpacked->archive.members);
  members.push_back({"neff.tgz", {unpacked->payload.begin(), unpacked->payload.end()}});
  return tool::write_directory(directory, members);
}

Status parse_uuid(const std::string& text, neff::PackOptions* options) {
  std::array<uint8_t, 16> uuid{};
  if (text.empty()) return {};
  if (text == "random") {
    std::random_device random;
    for (uint8_t& b : uuid) b = static_cast<uint8_t>(random());
    uuid[6] = static_cast<uint8_t>((uuid[6] & 0x0F) | 0x40);
    uuid[8] = static_cast<uint8_t>((uuid[8] & 0x3F) | 0x80);
  } else {
    if (text.size() != 32 || text.find_first_not_of("0123456789abcdef") != std::string::npos) {
      return usage("--uuid: expected 32 lower-case hex digits or 'random'");
    }
    for (size_t i = 0; i < 16; ++i) {
      uuid[i] = static_cast<uint8_t>(std::stoul(text.substr(2 * i, 2), nullptr, 16));
    }
  }
  options->uuid = uuid;
  return {};
}

Status run_pack(Arguments a) {
  auto members = tool::read_directory(a.input);
  if (!members) return members.error();
  if (Status s = parse_uuid(a.uuid, &a.pack); !s) return s;
  a.pack.gzip = !a.uncompressed;
  if (a.pack.name.empty()) a.pack.name = fs::weakly_canonical(a.input).filename().string();
  if (a.lnc != 0) a.pack.lnc_size = a.lnc;
  std::vector<neff::Member> kept;
  for (neff::Member& m : *members) {
    if (m.name != "neff.tgz") kept.push_back(std::move(m));  // left by unpack, not a member
  }
  auto file = neff::pack(std::move(kept), a.pack);
  if (!file) return file.error();
  neff::LoadOptions all;
  all.supported_features = ~0ull;
  const auto check = neff::load(*file, all);
  if (!check)
    std::cerr << "warning: the result would not load: " << check.error().message() << "\n";
  return tool::write_file(a.output, *file);
}

Status run_as(const Arguments& a) {
  auto source = tool::read_file(a.input);
  if (!source) return source.error();
  neff::AsmOptions options;
  for (unsigned e = 0; e < neff::kEngines; ++e) {
    const auto engine = static_cast<neff::Engine>(e);
    if (a.engine == neff::to_string(engine)) options.engine = engine;
  }
  if (!a.engine.empty() && !options.engine) return usage("--engine: pe, act, pool, dve or sp");
  if (!a.arch.empty()) {
    const auto arch = neff::parse_arch(a.arch);
    if (!arch || neff::core_version(*arch) < 2) return usage("--arch: trn1, inf2, trn2 or trn3");
    options.core_version = static_cast<uint8_t>(neff::core_version(*arch));
  }
  const std::string_view text(reinterpret_cast<const char*>(source->data()), source->size());
  auto program = neff::assemble(text, options);
  if (!program) {
    base::Error error = program.error();
    error.where = a.input + " " + error.where;
    return error;
  }
  const fs::path output =
      a.output.empty() ? fs::path(a.input).replace_extension(".bin") : fs::path(a.output);
  return tool::write_file(output, *program);
}

bool is_engine_file(base::ConstByteSpan bytes) {
  constexpr std::string_view kMagic = "EMUNCENG";
  return bytes.size() >= kMagic.size() &&
         std::string_view(reinterpret_cast<const char*>(bytes.data()), kMagic.size()) == kMagic;
}

Status emit(const Arguments& a, const std::string& text) {
  if (!a.output.empty()) return tool::write_file(a.output, neff::text_bytes(text));
  std::cout << text;
  return {};
}

Status run_dis(const Arguments& a) {
  auto file = tool::read_file(a.input);
  if (!file) return file.error();
  if (is_engine_file(*file)) {
    auto text = neff::disassemble(*file);
    if (!text) return text.error();
    return emit(a, *text);
  }
  auto unpacked = neff::unpack(*file);
  if (!unpacked) return unpacked.error();
  const neff::Member* debug = unpacked->archive.find(neff::kDebugInfoFile);
  const auto info = debug == nullptr ? std::nullopt : neff::read_debug_info(debug->data);
  std::string all;
  for (const neff::Member& m : unpacked->archive.members) {
    if (!is_engine_file(m.data) || (!a.member.empty() && m.name != a.member)) continue;
    auto text = neff::disassemble(m.data, info ? &*info : nullptr);
    if (!text) {
      base::Error error = text.error();
      error.where = m.name + " " + error.where;
      return error;
    }
    all += "# " + m.name + "\n" + *text;
  }
  if (all.empty()) {
    return base::Error{base::Fault::kProgram, 0, a.input, "no engine program in a known encoding"};
  }
  return emit(a, all);
}

int report(const Status& status) {
  if (status) return 0;
  std::cerr << "neff: " << status.error().message() << "\n";
  return status.error().fault == base::Fault::kUsage ? 2 : 1;
}

int run(int argc, char** argv) {
  CLI::App app{"Lists, unpacks, packs, assembles and disassembles NEFF files"};
  app.require_subcommand(1);
  Arguments a;
  a.pack.name.clear();

  CLI::App* info = app.add_subcommand("info", "Print the header, nodes and tensors of a NEFF");
  info->add_option("file", a.input, "NEFF")->required();
  info->add_flag("--json-output", a.info.json, "JSON instead of text");
  info->add_flag("-w,--weights", a.info.weights, "list weights too");
  info->add_flag("-s,--spills", a.info.spills, "list spill buffers too");

  CLI::App* unpack = app.add_subcommand("unpack", "Write the members of a NEFF into a directory");
  unpack->add_option("file", a.input, "NEFF")->required();
  unpack->add_option("-o,--output", a.output, "directory (default: name without suffix)");

  CLI::App* pack = app.add_subcommand("pack", "Make a NEFF of a directory; assembles .s programs");
  pack->add_option("directory", a.input, "with sg00/def.json and so on")->required();
  pack->add_option("-o,--output", a.output, "NEFF to write")->required();
  pack->add_option("--name", a.pack.name, "network name (default: that of the directory)");
  pack->add_option("--pkg-version", a.pack.pkg_version, "1 (SHA-256) or 2 (MD5)");
  pack->add_option("--features", a.pack.feature_bits, "feature bits");
  pack->add_option("--lnc", a.lnc, "logical core size")->check(CLI::Range(1, 2));
  pack->add_option("--uuid", a.uuid, "32 hex digits, or 'random' (default: from the content)");
  pack->add_flag("--uncompressed", a.uncompressed, "plain tar");

  CLI::App* as = app.add_subcommand("as", "Assemble one engine program");
  as->add_option("file", a.input, "text")->required();
  as->add_option("-o,--output", a.output, "default: same name with .bin");
  as->add_option("--engine", a.engine, "when the text has no .engine");
  as->add_option("--arch", a.arch, "when the text has no .arch");

  CLI::App* dis = app.add_subcommand("dis", "Disassemble an engine program, or all of a NEFF");
  dis->add_option("file", a.input, "engine file or NEFF")->required();
  dis->add_option("-o,--output", a.output, "default: standard output");
  dis->add_option("--member", a.member, "only this member of a NEFF");

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? 0 : 2;
  }
  if (*info) return report(run_info(a));
  if (*unpack) return report(run_unpack(a));
  if (*pack) return report(run_pack(a));
  if (*as) return report(run_as(a));
  return report(run_dis(a));
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const int code = run(argc, argv);
    const base::Status printed = base::flush_stdout();
    if (printed || code != 0) return code;
    std::fprintf(stderr, "neff: %s\n", printed.error().message().c_str());
    return 1;
  } catch (const std::exception& e) {  // out of memory, or a defect
    std::fputs(e.what(), stderr);
    return 1;
  }
}
