// The two example networks, and ways to spoil them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "neff_loader/neff.h"
#include "neff_loader/pack.h"

namespace neff::test {

// Members of examples/neff/<name>, programs as text.
std::vector<Member> example(const std::string& name);

Member& member(std::vector<Member>& members, std::string_view name);

// Replaces the first occurrence; fails the test if there is none.
void replace(std::vector<Member>& members, std::string_view name, std::string_view from,
             std::string_view to);

std::vector<uint8_t> packed(std::vector<Member> members, const PackOptions& options = {});

// One entry of a tar archive, made by hand so that it can be wrong.
std::vector<uint8_t> tar_entry(const std::string& name, char type, std::string_view data,
                               const std::string& link = "", uint64_t claimed_size = UINT64_MAX);
std::vector<uint8_t> operator+(std::vector<uint8_t> a, const std::vector<uint8_t>& b);

std::vector<uint8_t> gzip(const std::vector<uint8_t>& data);

// A file around this payload.
std::vector<uint8_t> file_of(const std::vector<uint8_t>& payload, Header header = {});

}  // namespace neff::test
