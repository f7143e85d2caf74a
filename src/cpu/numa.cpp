#include "cpu/numa.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <fstream>

#include "base/check.h"

namespace billow::cpu {
namespace {

constexpr int kPreferred = 1;   // MPOL_PREFERRED of <linux/mempolicy.h>
constexpr int kInterleave = 3;  // MPOL_INTERLEAVE
constexpr size_t kMaxNumbers = 1024;
constexpr size_t kWordBits = 8 * sizeof(unsigned long);

bool read_number(const char*& at, const char* end, int& out) {
  const auto [next, error] = std::from_chars(at, end, out);
  at = next;
  return error == std::errc() && out >= 0 && out < static_cast<int>(kMaxNumbers);
}

std::vector<int> nodes_with_memory() {
  std::ifstream file("/sys/devices/system/node/has_memory");
  std::string line;
  std::getline(file, line);
  return numbers_of_list(line);
}

// Returns whether the user has chosen where memory comes from (numactl): a policy of a range would
// replace that of the process.
bool has_policy_of_user() {
  int policy = 0;  // MPOL_DEFAULT
  return ::syscall(SYS_get_mempolicy, &policy, nullptr, 0, nullptr, 0) == 0 && policy != 0;
}

// The system call needs no library. If it fails, each page comes from the node that touches it
// first.
void set_policy(void* data, size_t n_bytes, int policy, const std::vector<int>& nodes) {
  if (has_policy_of_user()) return;
  std::array<unsigned long, kMaxNumbers / kWordBits> mask{};
  for (const int node : nodes) {
    const auto i = static_cast<size_t>(node);
    mask[i / kWordBits] |= 1ul << (i % kWordBits);
  }
  (void)::syscall(SYS_mbind, data, n_bytes, policy, mask.data(), kMaxNumbers + 1, 0);
}

}  // namespace

std::vector<int> numbers_of_list(const std::string& list) {
  std::vector<int> numbers;
  const char* at = list.data();
  const char* end = at + list.size();
  while (at < end) {
    int first = 0;
    if (!read_number(at, end, first)) return {};
    int last = first;
    if (at < end && *at == '-') {
      ++at;
      if (!read_number(at, end, last)) return {};
    }
    for (int number = first; number <= last; ++number) numbers.push_back(number);
    if (at < end && *at != ',') return {};
    ++at;
  }
  return numbers;
}

bool has_several_nodes() { return nodes_with_memory().size() > 1; }

void spread_over_nodes(void* data, size_t n_bytes) {
  const std::vector<int> nodes = nodes_with_memory();
  if (nodes.size() > 1) set_policy(data, n_bytes, kInterleave, nodes);
}

void put_on_node(void* data, size_t n_bytes, int node) {
  BILLOW_CHECK(node >= 0 && node < static_cast<int>(kMaxNumbers));
  set_policy(data, n_bytes, kPreferred, {node});
}

}  // namespace billow::cpu
