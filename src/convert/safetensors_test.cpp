#include "convert/safetensors.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "convert/sample_model.h"

namespace billow::convert {
namespace {

std::vector<SafeTensor> parsed(std::string_view bytes) {
  // Passes only the header bytes of the file.
  const auto whole = std::as_bytes(std::span(bytes));
  const uint64_t n_header = header_end(whole, whole.size(), "f");
  return parse_safetensors(whole.first(n_header), whole.size(), "f");
}

std::string refusal(std::string_view bytes) {
  try {
    parsed(bytes);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

std::string tensor(const std::string& name, const std::string& dtype, const std::string& shape,
                   const std::string& offsets) {
  return "\"" + name + R"(":{"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":)" +
         offsets + "}";
}

TEST(Safetensors, FindsTensorsByHeader) {
  const std::string header =
      "{\"__metadata__\":{\"format\":\"pt\"}," + tensor("b", "F16", "[2,3]", "[4,16]") + "," +
      tensor("a", "F32", "[]", "[0,4]") + "," + tensor("none", "BF16", "[0,5]", "[16,16]") + "}   ";
  const std::string bytes = with_header(header, "abcdefghijklmnop");
  const auto tensors = parsed(bytes);
  ASSERT_EQ(tensors.size(), 3u);
  EXPECT_EQ(tensors[0].name, "a");
  EXPECT_EQ(tensors[0].dtype, "F32");
  EXPECT_TRUE(tensors[0].shape.empty());
  EXPECT_EQ(tensors[1].name, "b");
  EXPECT_EQ(tensors[1].shape, (std::vector<uint64_t>{2, 3}));
  EXPECT_EQ(tensors[1].n_bytes, 12u);
  EXPECT_EQ(bytes.at(tensors[1].begin), 'e');
  EXPECT_EQ(tensors[2].n_bytes, 0u);
  EXPECT_TRUE(parsed(with_header("{}", "")).empty());
}

TEST(Safetensors, RefusesInvalidFiles) {
  const std::string a = tensor("a", "F32", "[2]", "[0,8]");
  const std::pair<std::string, std::string> cases[] = {
      {"", "f: too short for a safetensors file"},
      {"1234567", "f: too short for a safetensors file"},
      {std::string("\3\0\0\0\0\0\0\0{}", 10), "f: cut off: its header extends beyond its end"},
      {std::string(8, '\xff') + "{}", "f: not a safetensors file: its header is over 100 MB"},
      {with_header("", ""), "f: malformed JSON"},
      {with_header("{", ""), "f: malformed JSON"},
      {with_header("[]", ""), "f: its header is not a JSON object"},
      {with_header(R"({"a":1})", ""), "f: tensor 'a': not a JSON object"},
      {with_header("{" + a + "," + a + "}", "12345678"), "f: \"a\" appears twice"},
      {with_header("{" + a + "}", "1234567"), "f: cut off: tensor 'a' extends beyond its end"},
      {with_header("{" + a + "}", "123456789"), "f: 1 bytes at its end belong to no tensor"},
      {with_header("{" + tensor("a", "F32", "[2]", "[0,4]") + "}", "1234"),
       "f: tensor 'a': \"data_offsets\" are 4 bytes apart; the shape needs 8"},
      {with_header("{" + tensor("a", "F32", "[1]", "[1,5]") + "}", "12345"),
       "f: tensor 'a' does not begin at the end of the tensor before it"},
      {with_header("{" + a + "," + tensor("b", "F32", "[1]", "[4,8]") + "}", "12345678"),
       "f: tensor 'b' does not begin at the end of the tensor before it"},
      {with_header("{" + tensor("a", "F32", "[2]", "[8,0]") + "}", "12345678"),
       "f: tensor 'a': \"data_offsets\" must be the begin and the end of the tensor"},
      {with_header("{" + tensor("a", "F32", "[2]", "[0]") + "}", "12345678"),
       "f: tensor 'a': \"data_offsets\" must be the begin and the end of the tensor"},
      {with_header("{" + tensor("a", "F32", "[-2]", "[0,8]") + "}", "12345678"),
       "f: tensor 'a': \"shape\" must contain only whole numbers"},
      {with_header("{" + tensor("a", "F32", "[4294967296,4294967296]", "[0,8]") + "}", "12345678"),
       "f: tensor 'a': \"shape\" is too large"},
      {with_header("{" + tensor("a", "F32", "[1,1,1,1,1,1,1,1,2]", "[0,8]") + "}", "12345678"),
       "f: tensor 'a': \"shape\" must be an array of at most 8 numbers"},
      {with_header("{" + tensor("a", "F7", "[2]", "[0,8]") + "}", "12345678"),
       "f: tensor 'a': \"dtype\" has an unknown type: 'F7'"},
      {with_header("{\"a\":" + std::string(200, '[') + std::string(200, ']') + "}", ""),
       "f: JSON nested too deep"},
  };
  for (const auto& [bytes, message] : cases) EXPECT_EQ(refusal(bytes), message);
}

TEST(Safetensors, RefusesEveryTruncation) {
  const std::string bytes = safetensors_bytes({{"a", {{2, 3}, "F32"}}, {"b", {{5}, "BF16"}}});
  EXPECT_EQ(refusal(bytes), "");
  for (size_t n = 0; n < bytes.size(); ++n) {
    EXPECT_NE(refusal(std::string_view(bytes).substr(0, n)), "") << n;
  }
}

}  // namespace
}  // namespace billow::convert
