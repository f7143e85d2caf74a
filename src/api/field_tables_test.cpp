// Tests the field tables, and that docs/api/fields.md shows all of them.
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <set>
#include <string>

#include "api/anthropic/field_tables.h"
#include "api/llama/field_tables.h"
#include "api/ollama/field_tables.h"
#include "api/openai/field_tables.h"
#include "base/json.h"
#include "base/test_source_dir.h"
#include "http/status.h"

namespace billow::api {
namespace {

const FieldTable* const kTables[] = {&ollama::kGenerateFields,   &ollama::kChatFields,
                                     &ollama::kOptionFields,     &openai::kChatFields,
                                     &openai::kCompletionFields, &openai::kResponseFields,
                                     &anthropic::kMessageFields, &anthropic::kCountFields,
                                     &llama::kCompletionFields,  &llama::kInfillFields};

const char* word_of(Treatment treatment) {
  if (treatment == Treatment::kHonoured) return "honoured";
  return treatment == Treatment::kIgnored ? "ignored" : "refused";
}

// Returns a table in the form of docs/api/fields.md. The harmless values of a refused field follow
// the word.
std::string markdown_of(const FieldTable& table) {
  std::string text = "`" + std::string(table.request) + "`\n\n| field | | |\n|---|---|---|\n";
  for (const FieldRule& rule : table.rules) {
    std::string harmless;
    for (const char c : rule.harmless)
      harmless += c == ' ' ? std::string("`, `") : std::string(1, c);
    text += "| `" + std::string(rule.name) + "` | " + word_of(rule.treatment) +
            (harmless.empty() ? "" : " unless `" + harmless + "`") + " | " +
            std::string(rule.note) + " |\n";
  }
  return text;
}

std::string documented() {
  std::ifstream file(source_dir() + "/docs/api/fields.md");
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(FieldTables, AreShownInTheDocument) {
  const std::string document = documented();
  for (const FieldTable* table : kTables)
    EXPECT_NE(document.find(markdown_of(*table)), std::string::npos)
        << "docs/api/fields.md lacks this table:\n"
        << markdown_of(*table);
}

TEST(FieldTables, HaveUniqueFieldsAndReasons) {
  for (const FieldTable* table : kTables) {
    std::set<std::string_view> names;
    for (const FieldRule& rule : table->rules) {
      EXPECT_TRUE(names.insert(rule.name).second) << table->request << " " << rule.name;
      EXPECT_EQ(rule.note.find('|'), std::string_view::npos) << rule.name;
      EXPECT_TRUE(rule.treatment == Treatment::kHonoured || !rule.note.empty()) << rule.name;
      EXPECT_TRUE(rule.treatment == Treatment::kRefused || rule.harmless.empty()) << rule.name;
    }
  }
}

TEST(FieldTables, RefuseFieldsByNameUnlessHarmless) {
  for (const FieldTable* table : kTables) {
    for (const FieldRule& rule : table->rules) {
      Json request;
      request[std::string(rule.name)] = "an unusual value";
      if (rule.treatment != Treatment::kRefused) {
        EXPECT_TRUE(check_fields(request, table->rules).empty()) << rule.name;
        continue;
      }
      try {
        check_fields(request, table->rules);
        ADD_FAILURE() << table->request << " accepts " << rule.name;
      } catch (const http::StatusError& error) {
        EXPECT_EQ(error.status(), 400);
        EXPECT_EQ(error.what(), "field \"" + std::string(rule.name) +
                                    "\" is not supported: " + std::string(rule.note));
      }
      for (size_t at = 0; at < rule.harmless.size();) {
        const size_t end = std::min(rule.harmless.find(' ', at), rule.harmless.size());
        request[std::string(rule.name)] = Json::parse(rule.harmless.substr(at, end - at));
        EXPECT_TRUE(check_fields(request, table->rules).empty()) << rule.name;
        at = end + 1;
      }
    }
  }
}

}  // namespace
}  // namespace billow::api
