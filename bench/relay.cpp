// Measures the min cost of a server per token on this machine. A process receives 20 bytes from one
// socket and sends 120 bytes to another. In parallel, two threads stream memory like a model.
// Prints microseconds of processor time per token. Compare this number with
// bench/server_overhead.py.
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <thread>
#include <vector>

namespace {

constexpr long kTokens = 1000;
constexpr size_t kIn = 20;
constexpr size_t kOut = 120;
constexpr size_t kModelBytes = size_t{60} << 20;  // per thread and token

[[noreturn]] void fail(const char* what) {
  std::perror(what);
  std::exit(1);
}

long processor_ns() {
  std::ifstream file("/proc/self/schedstat");
  long ns = 0;
  file >> ns;
  return ns;
}

[[noreturn]] void read_all(const sockaddr_in& address) {
  const int client = ::socket(AF_INET, SOCK_STREAM, 0);
  if (::connect(client, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
    fail("connect");
  std::array<char, 4096> bytes;
  while (::recv(client, bytes.data(), bytes.size(), 0) > 0) continue;
  ::_exit(0);
}

[[noreturn]] void relay(int listener, int from) {
  const int to = ::accept(listener, nullptr, nullptr);
  const int on = 1;
  ::setsockopt(to, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  std::array<char, 4096> bytes;
  const std::array<char, kOut> line{};
  const long before = processor_ns();
  long n_tokens = 0;
  while (n_tokens < kTokens) {
    const ssize_t n = ::recv(from, bytes.data(), bytes.size(), 0);
    if (n <= 0) fail("recv");
    for (size_t i = 0; i < static_cast<size_t>(n) / kIn; ++i, ++n_tokens)
      if (::send(to, line.data(), line.size(), MSG_NOSIGNAL) < 0) fail("send");
  }
  std::printf("%.1f us per token\n", static_cast<double>(processor_ns() - before) / 1e3 / kTokens);
  std::fflush(stdout);
  ::_exit(0);
}

long pass_over(const std::vector<char>& weights) {
  long sum = 0;
  for (size_t i = 0; i < weights.size(); i += 64) sum += weights[i];
  return sum;
}

}  // namespace

int main() {
  std::array<int, 2> pair{};
  if (::socketpair(AF_UNIX, SOCK_STREAM, 0, pair.data()) != 0) fail("socketpair");
  const int listener = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  if (::bind(listener, reinterpret_cast<const sockaddr*>(&address), size) != 0 ||
      ::listen(listener, 1) != 0 ||
      ::getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size) != 0)
    fail("listen");
  if (::fork() == 0) read_all(address);
  if (::fork() == 0) relay(listener, pair[1]);

  const std::array<std::vector<char>, 2> weights{std::vector<char>(kModelBytes, 1),
                                                 std::vector<char>(kModelBytes, 1)};
  std::atomic<long> turn{0};
  std::atomic<long> sum{0};
  std::thread other([&] {
    for (long seen = 0; seen < kTokens; ++seen) {
      while (turn <= seen) continue;
      sum += pass_over(weights[1]);
    }
  });
  const std::array<char, kIn> token{};
  for (long i = 0; i < kTokens; ++i) {
    ++turn;
    sum += pass_over(weights[0]);
    if (::send(pair[0], token.data(), token.size(), 0) < 0) fail("send");
  }
  other.join();
  while (::wait(nullptr) > 0) continue;
  return sum == 0 ? 1 : 0;
}
