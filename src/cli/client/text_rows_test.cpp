#include "cli/client/text_rows.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <thread>

#include "base/test_folder.h"

namespace billow::cli {
namespace {

struct Rows {
  explicit Rows(const std::string& content, const std::string& name = "in.txt",
                const std::string& field = "text")
      : path(folder.path() + "/" + name) {
    write_test_file(path, content);
    rows.emplace(path, row_format_of(path), field);
  }
  // Returns the texts, each followed by "|", then the error that ended them.
  std::string all() {
    std::string texts;
    try {
      while (const auto text = rows->next()) texts += *text + "|";
    } catch (const RowError& error) {
      texts += std::string(error.what()).substr(path.size());
    }
    return texts;
  }
  TestFolder folder;
  std::string path;
  std::optional<TextRows> rows;
};

TEST(TextRows, ReadsEachLineAsARowEvenAnEmptyOne) {
  EXPECT_EQ(Rows("a\n\nb c\r\nd").all(), "a||b c|d|");
  EXPECT_EQ(Rows("").all(), "");
  EXPECT_EQ(Rows("\xEF\xBB\xBFx\n").all(), "x|") << "a byte order mark is not text";
  EXPECT_EQ(Rows("\xEF\xBCx\n").all(), "\xEF\xBCx|");
}

TEST(TextRows, ReadsAPipeFromItsFirstByteAndResumesIt) {
  for (const std::string begin : {"\xEF\xBC\x88", "\xEF\xBB\xBF", "\xEF", "", "\xEF\xBB"}) {
    SCOPED_TRACE(begin);
    const std::string text = begin + "a\nb\nc\n";
    const std::string first = begin == "\xEF\xBB\xBF" ? "a" : begin + "a";
    const TestFolder folder;
    const std::string path = folder.path() + "/pipe";
    ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
    uint64_t offset = 0;
    for (const bool resumes : {false, true}) {
      std::jthread writer([&] { write_test_file(path, text); });
      TextRows rows(path, RowFormat::kLines, "");
      if (resumes) {
        rows.resume(1, offset);
      } else {
        EXPECT_EQ(rows.next(), first);
        offset = rows.offset();
      }
      EXPECT_EQ(rows.next(), "b");
      EXPECT_EQ(rows.next(), "c");
      EXPECT_EQ(rows.next(), std::nullopt);
      EXPECT_EQ(rows.n_rows(), 3u);
    }
  }
}

TEST(TextRows, ReadsAFieldOfJsonLines) {
  EXPECT_EQ(Rows("{\"text\":\"a\\n\"}\n\n  \n{\"n\":1,\"text\":\"b\"}\n", "in.jsonl").all(),
            "a\n|b|");
  EXPECT_EQ(Rows("{\"body\":\"a\"}", "in.ndjson", "body").all(), "a|");
  EXPECT_EQ(Rows("{\"text\":\"a\"}\n{\"text\":5}\n", "in.jsonl").all(),
            "a|: row 1: it has no text \"text\"");
  EXPECT_EQ(Rows("{\"text\":\"a\"}\n\n{\"te\n", "in.jsonl").all(),
            "a|: row 1: it is not a JSON object");
  const std::string deep = std::string(200'000, '[') + std::string(200'000, ']');
  EXPECT_EQ(Rows("{\"text\":\"a\",\"n\":" + deep + "}\n", "in.jsonl").all(),
            ": row 0: it is not a JSON object");
}

TEST(TextRows, ReadsCsvOfRfc4180) {
  EXPECT_EQ(Rows("id,text\r\n1,a\r\n2,\"b, \"\"c\"\"\nd\"\r\n\r\n3,\n4,last", "in.csv").all(),
            "a|b, \"c\"\nd||last|");
  EXPECT_EQ(Rows("\"te\"\"xt\",n\nx,1\n", "in.csv", "te\"xt").all(), "x|");
  EXPECT_EQ(Rows("id,text\n1,a\n2\n", "in.csv").all(), "a|: row 1: it has no column 'text'");
  EXPECT_EQ(Rows("id,text\n1,\"a\n", "in.csv").all(), ": row 0: a quoted field does not end");
  EXPECT_THROW(Rows("id,body\n", "in.csv"), RowError);
  EXPECT_THROW(Rows("", "in.csv"), RowError);
}

TEST(TextRows, ResumesAtAnOffset) {
  const std::string csv = "text,n\na,1\n\"b\nb\",2\nc,3\n";
  Rows first(csv, "in.csv");
  first.rows->skip(2);
  EXPECT_EQ(first.rows->n_rows(), 2u);
  const uint64_t offset = first.rows->offset();
  EXPECT_EQ(first.all(), "c|");
  Rows again(csv, "in.csv");
  again.rows->resume(2, offset);
  EXPECT_EQ(again.all(), "c|");
  EXPECT_EQ(again.rows->n_rows(), 3u);
  try {
    Rows(csv, "in.csv").rows->skip(4);
    FAIL();
  } catch (const RowError& error) {
    EXPECT_NE(std::string(error.what()).find("it has 3 rows"), std::string::npos) << error.what();
  }
}

TEST(TextRows, ThrowsRowErrorForAMissingFile) {
  EXPECT_THROW(TextRows("/nowhere/in.txt", RowFormat::kLines, ""), RowError);
}

}  // namespace
}  // namespace billow::cli
