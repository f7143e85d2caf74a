#include "store/digest.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/test_folder.h"

namespace billow::store {
namespace {

// From FIPS 180-2, appendix B.
constexpr const char* kOfAbc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

TEST(Digest, MatchesTheStandard) {
  EXPECT_EQ(digest_of("abc").hex(), kOfAbc);
  EXPECT_EQ(digest_of("").hex(),
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  Hasher hasher;
  hasher.update(std::as_bytes(std::span("a", 1)));
  hasher.update({});
  hasher.update(std::as_bytes(std::span("bc", 2)));
  EXPECT_EQ(hasher.finish(), digest_of("abc"));
}

TEST(Digest, ParsesBothFormsAndPrintsLowerCase) {
  const std::string hex = kOfAbc;
  std::string upper = hex;
  for (char& c : upper) c = static_cast<char>(std::toupper(c));
  for (const std::string& text : {"sha256:" + hex, "sha256-" + hex, "sha256:" + upper}) {
    const auto digest = Digest::parse(text);
    ASSERT_TRUE(digest) << text;
    EXPECT_EQ(digest->text(), "sha256:" + hex);
    EXPECT_EQ(digest->file_name(), "sha256-" + hex);
    EXPECT_EQ(*digest, digest_of("abc"));
  }
}

TEST(Digest, RefusesOtherText) {
  const std::string hex = kOfAbc;
  for (const std::string& text :
       {std::string(), hex, "sha256" + hex, "sha256:" + hex.substr(1), "sha256:" + hex + "0",
        "SHA256:" + hex, "sha512:" + hex, "sha256/" + hex, "sha256:" + hex.substr(1) + "g",
        "sha256-../../" + hex.substr(6), " sha256:" + hex.substr(1), "sha256:" + hex + "\n"}) {
    EXPECT_FALSE(Digest::parse(text)) << text;
  }
}

TEST(Digest, OfAFileReportsProgress) {
  const TestFolder folder;
  const std::string path = folder.path() + "/f";
  const std::string content((size_t{2} << 20) + 5, 'x');
  write_test_file(path, content);
  uint64_t last = 0;
  int n_calls = 0;
  const Digest digest = digest_of_file(path, [&](uint64_t done, uint64_t total) {
    EXPECT_GT(done, last);
    EXPECT_EQ(total, content.size());
    last = done;
    ++n_calls;
  });
  EXPECT_EQ(digest, digest_of(content));
  EXPECT_EQ(last, content.size());
  EXPECT_GE(n_calls, 3);
  EXPECT_THROW(digest_of_file(folder.path() + "/absent"), Error);
  EXPECT_THROW(digest_of_file(folder.path()), Error);
}

}  // namespace
}  // namespace billow::store
