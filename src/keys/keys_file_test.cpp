#include "keys/keys_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <functional>
#include <set>
#include <thread>

#include "base/error.h"
#include "base/test_folder.h"

namespace billow::keys {
namespace {

const std::string kHexA(64, 'a');
const std::string kHexB(64, 'b');

std::string why(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}
std::string why_not(const std::string& text) {
  return why([&] { parse_keys(text, "keys.toml"); });
}
std::string one_key(const std::string& rest) {
  return "[[key]]\nname = \"ann\"\nsha256 = \"" + kHexA + "\"\n" + rest;
}

TEST(KeysFile, ReadsKeysWithRolesAndLimits) {
  const std::vector<KeyRecord> keys = parse_keys(
      "# tenants\n" +
          one_key("roles = [\"use\", \"observe\"]\nmax_requests = 4\ntokens_per_minute = 50000\n"
                  "weight = 3\n") +
          "[[key]]\nname = \"bob\"\nsha256 = \"" + kHexB + "\"\n",
      "keys.toml");
  ASSERT_EQ(keys.size(), 2U);
  EXPECT_EQ(keys[0].name, "ann");
  EXPECT_EQ(keys[0].digest.hex(), kHexA);
  EXPECT_EQ(roles_text(keys[0].roles), "use,observe");
  EXPECT_EQ(keys[0].limits, (Limits{.max_requests = 4, .tokens_per_minute = 50'000, .weight = 3}));
  EXPECT_EQ(roles_text(keys[1].roles), "use");
  EXPECT_EQ(keys[1].limits, Limits());
  EXPECT_TRUE(parse_keys("", "keys.toml").empty());
}

TEST(KeysFile, NamesTheLineOfAFault) {
  EXPECT_EQ(why_not(one_key("rolls = [\"use\"]\n")),
            "keys.toml:4: unknown key 'rolls'; did you mean 'roles'?");
  EXPECT_EQ(why_not(one_key("roles = [\"use\", \"admin\"]\n")),
            "keys.toml:4: unknown role 'admin'; the roles are use, manage and observe");
  EXPECT_EQ(why_not(one_key("roles = \"use\"\n")),
            "keys.toml:4: 'roles' must be a list like [\"use\", \"observe\"]");
  EXPECT_EQ(why_not(one_key("max_requests = 0\n")),
            "keys.toml:4: 'max_requests' must be a whole number from 1 to 1000000");
  EXPECT_EQ(why_not(one_key("weight = 1001\n")),
            "keys.toml:4: 'weight' must be a whole number from 1 to 1000");
  EXPECT_EQ(why_not("[[key]]\nname = \"ann\"\nsha256 = \"abc\"\n"),
            "keys.toml:3: 'sha256' must be the SHA-256 of a key: 64 hexadecimal digits");
  EXPECT_EQ(why_not("[[key]]\nname = \"ann\"\n"), "keys.toml:1: a [[key]] needs 'sha256'");
  EXPECT_EQ(why_not("[[key]]\nname = \"a b\"\nsha256 = \"" + kHexA + "\"\n"),
            "keys.toml:2: the name 'a b' must have 1 to 64 letters, digits or -_.@");
  EXPECT_EQ(why_not(one_key("[[key]]\nname = \"ann\"\nsha256 = \"" + kHexB + "\"\n")),
            "keys.toml:4: the name 'ann' is also at keys.toml:1");
  EXPECT_EQ(why_not(one_key("[[key]]\nname = \"bob\"\nsha256 = \"" + kHexA + "\"\n")),
            "keys.toml:4: 'bob' and 'ann' have the same sha256");
  EXPECT_EQ(why_not("name = \"ann\"\n"),
            "keys.toml:1: unknown key 'name'; the file has a [[key]] for each API key");
  EXPECT_EQ(why_not("[key]\nname = \"ann\"\n"), "keys.toml:1: write [[key]] for each API key");
  EXPECT_TRUE(why_not("[[key]\n").starts_with("keys.toml:1: ")) << why_not("[[key]\n");
}

TEST(KeysFile, AddsAndRevokesKeysAndKeepsTheOtherLines) {
  const std::string old = "# keep this line\n" + one_key("# and this one\n");
  KeyRecord bob{.name = "bob", .digest = *store::Digest::parse("sha256:" + kHexB)};
  bob.roles = parse_roles("use, manage");
  bob.limits = {.max_requests = 2, .tokens_per_minute = 300, .weight = 5};
  const std::string both = add_key(old, bob, "keys.toml");
  EXPECT_TRUE(both.starts_with(old));
  const std::vector<KeyRecord> keys = parse_keys(both, "keys.toml");
  ASSERT_EQ(keys.size(), 2U);
  EXPECT_EQ(keys[1].name, "bob");
  EXPECT_EQ(keys[1].digest, bob.digest);
  EXPECT_EQ(keys[1].roles, bob.roles);
  EXPECT_EQ(keys[1].limits, bob.limits);

  EXPECT_EQ(why([&] { add_key(both, bob, "keys.toml"); }),
            "keys.toml has a key 'bob' already; revoke it first, or choose another name");
  EXPECT_EQ(revoke_key(both, "bob", "keys.toml"), old + "\n");
  const std::string only_bob = revoke_key(both, "ann", "keys.toml");
  EXPECT_EQ(parse_keys(only_bob, "keys.toml").size(), 1U);
  EXPECT_TRUE(only_bob.starts_with("# keep this line\n"));
  const std::string with_note = add_key(old + "\n# for a month\n", bob, "keys.toml");
  EXPECT_NE(revoke_key(with_note, "ann", "keys.toml").find("# for a month\n"), std::string::npos);
  EXPECT_EQ(why([&] { revoke_key(both, "bobb", "keys.toml"); }),
            "keys.toml has no key 'bobb'; did you mean 'bob'?");
}

TEST(KeysFile, RefusesToRevokeAKeyFromAnInlineList) {
  const std::string text = "key = [{name = \"ann\", sha256 = \"" + kHexA +
                           "\"}, {name = \"bob\", sha256 = \"" + kHexB + "\"}]\n";
  EXPECT_EQ(parse_keys(text, "keys.toml").size(), 2U);
  EXPECT_NE(why([&] { revoke_key(text, "bob", "keys.toml"); }), "no error");
}

TEST(KeysFile, MakesADifferentKeyEachTime) {
  std::set<std::string> keys;
  for (int i = 0; i < 100; ++i) keys.insert(new_key());
  EXPECT_EQ(keys.size(), 100U);
  EXPECT_EQ(keys.begin()->size(), 50U);
}

TEST(KeysFile, RefusesUnknownRoles) {
  EXPECT_EQ(why([] { parse_roles("use,"); }),
            "unknown role ''; the roles are use, manage and observe");
}

TEST(KeysFile, IsReplacedByRenameAndOnlyItsOwnerReadsIt) {
  const TestFolder folder;
  const std::string path = folder.path() + "/keys.toml";
  {
    KeysFileChange change(path);
    EXPECT_EQ(read_keys_file(path), "");
    change.write("# new\n");
  }
  EXPECT_EQ(read_keys_file(path), "# new\n");
  struct stat status{};
  ASSERT_EQ(::stat(path.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600U);
  ASSERT_EQ(::chmod(path.c_str(), 0644), 0);
  KeysFileChange(path).write("# again\n");
  ASSERT_EQ(::stat(path.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0640U);
}

TEST(KeysFile, ChangesOfSeveralProgramsAreAllKept) {
  const TestFolder folder;
  const std::string path = folder.path() + "/keys.toml";
  constexpr int kThreads = 4;
  constexpr int kEach = 10;
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&path, t] {
        for (int i = 0; i < kEach; ++i) {
          KeysFileChange change(path);
          const std::string name = std::to_string(t) + "-" + std::to_string(i);
          KeyRecord key{.name = name, .digest = store::digest_of(name)};
          key.roles.add(Role::kUse);
          change.write(add_key(read_keys_file(path), key, path));
        }
      });
    }
  }
  EXPECT_EQ(parse_keys(read_keys_file(path), path).size(), size_t{kThreads * kEach});
}

}  // namespace
}  // namespace billow::keys
