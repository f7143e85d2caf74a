#include "cli/client/embed_work.h"

#include <gtest/gtest.h>

#include <functional>

namespace billow::cli {
namespace {

EmbedBatch batch_of(std::vector<std::string> texts) {
  return {.first_row = 10, .texts = std::move(texts)};
}

// Returns "65 TEXT": the exit status and the message.
std::string failure(const std::string& body, std::vector<std::string> texts) {
  EmbedBatch batch = batch_of(std::move(texts));
  try {
    read_embed_answer(body, "in.txt", batch);
    return "none";
  } catch (const BulkFailure& error) {
    return std::to_string(error.exit_status()) + " " + error.what();
  }
}

TEST(EmbedWork, OmitsDefaultsInRequests) {
  EmbedWorkOptions options;
  options.model = "m";
  EXPECT_EQ(embed_request(options, {"a", "b"}),
            R"({"model":"m","encoding_format":"base64","partial":true,"input":["a","b"]})");
  options.recipe = {.pooling = "cls",
                    .prefix = "query: ",
                    .dimensions = 2,
                    .normalise = false,
                    .truncation = "left"};
  EXPECT_EQ(embed_request(options, {"a"}),
            R"({"model":"m","encoding_format":"base64","partial":true,"input":["query: a"],)"
            R"("dimensions":2,"normalize":false,"pooling":"cls","truncation_direction":"left"})");
  options.recipe = {.truncation = "none"};
  EXPECT_EQ(embed_request(options, {"\xff"}),
            "{\"model\":\"m\",\"encoding_format\":\"base64\",\"partial\":true,"
            "\"input\":[\"\xef\xbf\xbd\"],\"truncate\":false}");
}

TEST(EmbedWork, DecodesTheFloatsOfAResponse) {
  EmbedBatch batch = batch_of({"a"});
  read_embed_answer(R"({"data":[{"embedding":"AAAAPwAAgL+Vv9Yz","index":0}]})", "in.txt", batch);
  ASSERT_EQ(batch.vectors.size(), 1u);
  EXPECT_EQ(batch.vectors[0], (std::vector<float>{0.5f, -1.0f, 1e-7f}));
}

TEST(EmbedWork, ReportsRowAndExitStatusOfAFailure) {
  EXPECT_EQ(failure(R"({"data":[{"embedding":""},{"index":1,"error":"too long","status":400}]})",
                    {"a", "b"}),
            "65 in.txt: row 11: too long");
  EXPECT_EQ(failure(R"({"data":[{"index":0,"error":"no memory","status":503}]})", {"a"}),
            "75 in.txt: row 10: no memory");
  for (const char* body :
       {"", "[]", "{}", R"({"data":[]})", R"({"data":[5]})", R"({"data":[{"embedding":5}]})",
        R"({"data":[{"embedding":"!"}]})", R"({"data":[{"embedding":"AAA="}]})"})
    EXPECT_EQ(failure(body, {"a"}).substr(0, 3), "75 ") << body;
}

}  // namespace
}  // namespace billow::cli
