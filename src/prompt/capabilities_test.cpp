#include "prompt/capabilities.h"

#include <gtest/gtest.h>

#include <string>

namespace billow::prompt {
namespace {

TemplateCapabilities of(const std::string& source) { return capabilities_of(GoTemplate(source)); }

TEST(Capabilities, GoTemplatesAreJudgedByTheirVariables) {
  EXPECT_EQ(of("{{ range .Messages }}{{ .Content }}{{ end }}"), TemplateCapabilities{});
  EXPECT_EQ(of("{{ if .Suffix }}{{ .Prompt }}{{ end }}"), (TemplateCapabilities{.insert = true}));
  EXPECT_EQ(of("{{ .Tools }}{{ range .Messages }}{{ if eq .Role \"tool\" }}{{ end }}{{ end }}"),
            (TemplateCapabilities{.tools = true, .tool_results = true}));
  EXPECT_EQ(of("{{ range .Messages }}{{ if .Thinking }}<t>{{ .Thinking }}</t>{{ end }}{{ end }}"),
            (TemplateCapabilities{.thinking = true}));
}

TEST(Capabilities, JinjaTemplatesAreJudgedByTheirText) {
  const auto of_jinja = capabilities_of_jinja;
  EXPECT_EQ(of_jinja("{% for m in messages %}{{ m.content }}{% endfor %}"), TemplateCapabilities{});
  EXPECT_EQ(of_jinja("{% if tools %}{% endif %}"), (TemplateCapabilities{.tools = true}));
  EXPECT_EQ(of_jinja("{{ m.tool_call }}{% if m.role == 'tool' %}"),
            (TemplateCapabilities{.tools = true, .tool_results = true}));
  EXPECT_EQ(of_jinja("{{ '<think>' + x + '</think>' }}"), (TemplateCapabilities{.thinking = true}));
  EXPECT_EQ(of_jinja("{{ x.split('</think>')[-1] }}"), (TemplateCapabilities{.thinking = true}));
  EXPECT_EQ(of_jinja("{{ '<think>' }}"), TemplateCapabilities{});
}

constexpr TemplateCapabilities kNothing{};
constexpr TemplateCapabilities kTools{.tools = true};
constexpr TemplateCapabilities kRoundTrip{.tools = true, .tool_results = true};
constexpr TemplateCapabilities kBoth{.tools = true, .thinking = true, .tool_results = true};
constexpr TemplateCapabilities kBothHalf{.tools = true, .thinking = true};

TEST(Capabilities, PrefersTheJinjaTemplateIfItCanDoMore) {
  EXPECT_TRUE(prefers_jinja(kNothing, kTools));
  EXPECT_TRUE(prefers_jinja(kRoundTrip, kBoth));
  EXPECT_TRUE(prefers_jinja(kTools, kRoundTrip));
  EXPECT_FALSE(prefers_jinja(kRoundTrip, kBothHalf));
  EXPECT_FALSE(prefers_jinja(kNothing, kNothing));
  EXPECT_FALSE(prefers_jinja(kTools, kTools));
  EXPECT_FALSE(prefers_jinja(kRoundTrip, kRoundTrip));
  EXPECT_FALSE(prefers_jinja(kBoth, kRoundTrip));
}

TEST(Capabilities, UserCanChooseTheTemplate) {
  EXPECT_EQ(choose_template(&kNothing, &kTools, GoTemplateUse::kAuto), TemplateKind::kJinja);
  EXPECT_EQ(choose_template(&kNothing, &kTools, GoTemplateUse::kAlways), TemplateKind::kGo);
  EXPECT_EQ(choose_template(&kBoth, &kTools, GoTemplateUse::kAuto), TemplateKind::kGo);
  EXPECT_EQ(choose_template(&kBoth, &kTools, GoTemplateUse::kNever), TemplateKind::kJinja);
  EXPECT_EQ(choose_template(&kBoth, nullptr, GoTemplateUse::kAuto), TemplateKind::kGo);
  EXPECT_EQ(choose_template(nullptr, nullptr, GoTemplateUse::kAuto), TemplateKind::kNone);
}

}  // namespace
}  // namespace billow::prompt
