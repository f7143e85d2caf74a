#include "registry/identity_key.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <random>
#include <set>
#include <thread>
#include <vector>

#include "base/base64.h"
#include "base/error.h"
#include "base/test_folder.h"
#include "store/folder.h"

namespace billow::registry {
namespace {

// A key that ssh-keygen created for these tests, without its first and last line.
constexpr const char* kBody =
    "b3BlbnNzaC1rZXktdjEAAAAABG5vbmUAAAAEbm9uZQAAAAAAAAABAAAAMwAAAAtzc2gtZW\n"
    "QyNTUxOQAAACCFQ34ZkXqj1yC4Krll22on3SbVoiIfEJkHx/Qi0hjbOwAAAJiND5dwjQ+X\n"
    "cAAAAAtzc2gtZWQyNTUxOQAAACCFQ34ZkXqj1yC4Krll22on3SbVoiIfEJkHx/Qi0hjbOw\n"
    "AAAEARePj/e5r5xVy0qU+NvYLrfGUxUnIctVFD+/lZHfJ064VDfhmReqPXILgquWXbaifd\n"
    "JtWiIh8QmQfH9CLSGNs7AAAAEXNvbWVvbmVAc29tZXdoZXJlAQIDBA==\n";
constexpr const char* kPublic =
    "AAAAC3NzaC1lZDI1NTE5AAAAIIVDfhmReqPXILgquWXbaifdJtWiIh8QmQfH9CLSGNs7";
// A key of ssh-keygen with a passphrase.
constexpr const char* kLocked =
    "b3BlbnNzaC1rZXktdjEAAAAACmFlczI1Ni1jdHIAAAAGYmNyeXB0AAAAGAAAABBwACpxVF\n"
    "8+kbOqmzrEbf/bAAAAEAAAAAEAAAAzAAAAC3NzaC1lZDI1NTE5AAAAIDgxkCxLnThppThy\n"
    "ay85DawZgz0TBCU4jrjdMZ1r2MbYAAAAkLcaEieWg9JLeBMWr1WGG28Lwy/tMwQXqd4KaW\n"
    "ogTvWzQ6GW6E6Fg2g+N19h3s2z8d7Un5r/Blw/yTAefTDVqNfmt1UJWxsWJhGKqMuI2hWV\n"
    "uPmPUGwvLEM/ya6oxSIdOmT3YZcnLr8iZhFWIQPbxCb8W34zJeWpJN9mqFMneyUGc00vXs\n"
    "HcI4D9iY1DH7GPoA==\n";

std::string key_file(const std::string& body) {
  const auto line = [](const char* word) {
    return std::string("-----") + word + " OPENSSH PRIVATE KEY-----\n";
  };
  return line("BEGIN") + body + line("END");
}

std::string why_not(const std::string& text) {
  try {
    IdentityKey::parse(text, "id");
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(IdentityKey, ReadsAKeyOfSshKeygen) {
  const IdentityKey key = IdentityKey::parse(key_file(kBody), "id");
  EXPECT_EQ(key.public_text(), kPublic);
  EXPECT_EQ(key.public_line(), std::string("ssh-ed25519 ") + kPublic);
  // The expected value comes from `openssl pkeyutl -sign -rawin`.
  EXPECT_EQ(
      key.sign("GET,https://registry/token?x=1,"),
      "jwUcI79Fl2tWWwi5aEQFgCNUbH2pNigVgHsCkhjKkizPbOGHgbCKP8bvQfMYkp6rjScABzrQzX0z8WB1RaO6AA==");
}

TEST(IdentityKey, RoundTripKeepsTheKey) {
  for (int i = 0; i < 20; ++i) {
    const IdentityKey key = IdentityKey::make();
    const IdentityKey again = IdentityKey::parse(key.to_text(), "id");
    EXPECT_EQ(again.to_text(), key.to_text());
    EXPECT_EQ(again.public_line(), key.public_line());
    EXPECT_EQ(again.sign("a"), key.sign("a"));
    EXPECT_NE(again.sign("a"), key.sign("b"));
  }
}

TEST(IdentityKey, SshKeygenReadsAWrittenKey) {
  if (std::system("command -v ssh-keygen >/dev/null 2>&1") != 0)
    GTEST_SKIP() << "ssh-keygen is not installed";
  const TestFolder folder;
  const std::string path = folder.path() + "/id_ed25519";
  const IdentityKey key = IdentityKey::load_or_make(path);
  const std::string command = "ssh-keygen -y -P '' -f " + path + " >" + path + ".answer";
  ASSERT_EQ(std::system(command.c_str()), 0);
  EXPECT_EQ(store::read_file(path + ".answer", 4096)->bytes, key.public_line() + "\n");
}

TEST(IdentityKey, RefusesOtherKindsOfKeys) {
  EXPECT_EQ(why_not(""), "id: this is not a private key in OpenSSH format");
  EXPECT_EQ(why_not(key_file("")), "id: this is not a private key in OpenSSH format");
  EXPECT_EQ(why_not(key_file("!!!!\n")), "id: this is not a private key in OpenSSH format");
  EXPECT_EQ(why_not(key_file(base64_encoded("something else"))),
            "id: this is not a private key in OpenSSH format");
  EXPECT_EQ(why_not(key_file(kLocked)),
            "id: the key has a passphrase; registries need one without");
}

TEST(IdentityKey, RefusesDamagedKeys) {
  const std::string bytes = *base64_decoded(kBody);
  for (size_t n = 0; n < bytes.size() - 30; ++n)  // the last bytes are the comment and the padding
    EXPECT_NE(why_not(key_file(base64_encoded(bytes.substr(0, n)))), "") << n;
  std::mt19937 random(1);
  for (int i = 0; i < 3000; ++i) {
    std::string damaged = bytes;
    damaged[random() % damaged.size()] = static_cast<char>(random());
    try {
      IdentityKey::parse(key_file(base64_encoded(damaged)), "id");
    } catch (const Error& error) {
      EXPECT_EQ(std::string(error.what()).substr(0, 4), "id: ");
    }
  }
}

TEST(IdentityKeyFile, IsCreatedOnceForItsUserOnly) {
  const TestFolder folder;
  const std::string path = folder.path() + "/a/b/id_ed25519";
  std::vector<std::string> lines(8);
  {
    std::vector<std::jthread> threads;
    for (std::string& line : lines)
      threads.emplace_back([&] { line = IdentityKey::load_or_make(path).public_line(); });
  }
  EXPECT_EQ(std::set<std::string>(lines.begin(), lines.end()).size(), 1u);
  EXPECT_EQ(store::read_file(path + ".pub", 4096)->bytes, lines[0] + "\n");
  EXPECT_EQ(IdentityKey::load_or_make(path).public_line(), lines[0]);
  struct stat status{};
  ASSERT_EQ(::stat(path.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600u);
  EXPECT_EQ(store::children(folder.path() + "/a/b"),
            (std::vector<std::string>{"id_ed25519", "id_ed25519.pub"}));
}

TEST(IdentityKeyFile, ABrokenFileIsReportedAndKept) {
  const TestFolder folder;
  const std::string path = folder.path() + "/id_ed25519";
  write_test_file(path, "nonsense");
  EXPECT_THROW(IdentityKey::load_or_make(path), Error);
  EXPECT_EQ(store::read_file(path, 4096)->bytes, "nonsense");
}

}  // namespace
}  // namespace billow::registry
