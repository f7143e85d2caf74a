#include "api/local_generator.h"

#include <gtest/gtest.h>

#include <functional>
#include <thread>

#include "api/request_options.h"
#include "api/sample_served.h"
#include "base/json.h"
#include "context/ladder.h"
#include "http/status.h"
#include "scheduler/fake_runner.h"

namespace billow::api {
namespace {

// Records everything that it receives.
class RecordingSink : public Sink {
 public:
  void sized(const Sizing& sizing) override { size = sizing; }
  bool delta(const Delta& delta) override {
    parts.add(delta);
    slot = delta.slot;
    return ++n_deltas < max_deltas;
  }
  bool end(const Ending& ending) override {
    ends.push_back(ending);
    return true;
  }
  bool rendered(const std::string& prompt, size_t) override {
    text = prompt;
    return true;
  }
  void still_working() override {
    ++n_signs;
    on_sign();
  }
  Sizing size;
  size_t n_signs = 0;  // keep-alive events that it could have sent
  std::function<void()> on_sign = [] {};
  const WholeAnswer& whole() const { return parts.whole(); }
  AnswerParts parts;
  std::string text;
  std::vector<Ending> ends;
  int64_t slot = -1;  // of the last delta
  size_t n_deltas = 0;
  size_t max_deltas = 1000;
};

class LocalGeneratorTest : public testing::Test {
 protected:
  void SetUp() override { models.add({.go = kLines}); }

  scheduler::FakeScript& script() { return last_script; }
  void change(const std::function<void(scheduler::FakeScript&)>& how) {
    runners.change(models.catalog.find("m")->key, how);
  }
  GenerationRequest prompt(const std::string& text, const std::string& options = "{}") {
    GenerationRequest request{.kind = GenerationKind::kPrompt, .model = "m"};
    request.prompt = text;
    request.options = options_of_text(options);
    return request;
  }
  RecordingSink run(const GenerationRequest& request) {
    return run_with(GenerationPolicy{}, request);
  }
  RecordingSink run_with(const GenerationPolicy& policy, const GenerationRequest& request) {
    RecordingSink sink;
    run_into(sink, request, policy);
    return sink;
  }
  void run_into(RecordingSink& sink, const GenerationRequest& request,
                const GenerationPolicy& policy = {}) {
    LocalGenerator generator(models.catalog, scheduler, metrics, contexts, slots, addresses,
                             policy);
    metrics::Trace trace("id", "/api/generate", "node");
    generator.run(request, sink, {}, trace);
    last_trace = trace.to_json();
  }
  bool nothing_is_loaded() {
    for (int i = 0; i < 1000 && !scheduler.state().models.empty(); ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    return scheduler.state().models.empty();
  }
  scheduler::Completion last_completion() const { return runners.completions().back().completion; }
  std::string refusal(const GenerationRequest& request) {
    try {
      run(request);
      return "none";
    } catch (const http::StatusError& error) {
      return std::to_string(error.status()) + " " + error.what();
    }
  }

  LatestContexts contexts;
  Slots slots{4};
  PictureAddresses addresses;
  SampleStore models;
  scheduler::FakeRunners runners;
  metrics::Metrics metrics{"0", "scalar"};
  scheduler::Scheduler scheduler{{.budget_bytes = uint64_t{1} << 30, .n_parallel = 4},
                                 runners.starter()};
  scheduler::FakeScript last_script;
  Json last_trace;
};

TEST_F(LocalGeneratorTest, ReturnsTheRunnersText) {
  const RecordingSink sink = run(prompt("hi"));
  EXPECT_EQ(sink.whole().text, "Hello there");
  ASSERT_EQ(sink.ends.size(), 1u);
  const Ending& end = sink.ends[0];
  EXPECT_EQ(end.done_reason, "stop");
  EXPECT_EQ(end.n_generated, 2u);
  EXPECT_EQ(end.n_prompt, last_completion().prompt.size());
  EXPECT_EQ(end.context.size(), end.n_prompt + 2) << "the prompt and the answer";
  EXPECT_GE(end.total, end.load);
  EXPECT_GT(end.load.count(), 0);
}

TEST_F(LocalGeneratorTest, LeavesItsTextInASlot) {
  const std::string key = models.catalog.find("m")->key;
  EXPECT_EQ(run(prompt("hi")).ends[0].slot, 0);
  const std::vector<int32_t> expected = last_completion().prompt;
  const size_t n_prompt = expected.size();
  EXPECT_EQ(slots.text(key, 0).text.tokens.size(), n_prompt + 1) << "the last was not evaluated";
  EXPECT_FALSE(slots.list(key)[0].is_busy);
  change([](scheduler::FakeScript& script) { script.end.n_generated = 3; });  // an end token
  GenerationRequest request = prompt("hi");
  request.slot = 3;
  const RecordingSink sink = run(request);
  EXPECT_EQ(sink.ends[0].slot, 3);
  EXPECT_EQ(slots.text(key, 3).text.tokens.size(), n_prompt + 2);
  EXPECT_EQ(sink.slot, 3);
  request.slot = 4;
  EXPECT_TRUE(refusal(request).starts_with("400 there is no slot 4")) << refusal(request);
  change([](scheduler::FakeScript& script) { script.end.tokens.assign(5000, 97); });
  request.slot = 3;
  run(request);
  EXPECT_EQ(slots.text(key, 3).text.tokens, expected) << "an answer longer than the context";
}

TEST_F(LocalGeneratorTest, ReportsWhichStopStringEndedTheAnswer) {
  change([](scheduler::FakeScript& script) { script.end.stop_string = "END"; });
  EXPECT_EQ(run(prompt("hi", R"({"stop":["END"]})")).ends[0].stop_string, "END");
  EXPECT_EQ(run(prompt("hi")).ends[0].stop_string, "") << "the model's own stop string";
}

TEST_F(LocalGeneratorTest, ReportsThatARequestWaitsForALoad) {
  change([](scheduler::FakeScript& script) { script.holds_load = true; });
  RecordingSink sink;
  sink.on_sign = [&] {
    if (sink.n_signs == 2) change([](scheduler::FakeScript& script) { script.holds_load = false; });
  };
  run_into(sink, prompt("hi"));
  EXPECT_GE(sink.n_signs, 2u);
  const RecordingSink loaded = run(prompt("hi"));
  EXPECT_TRUE(loaded.n_signs == 0 || loaded.ends.at(0).total >= std::chrono::seconds(1));
}

struct SizeCase {
  size_t max_context;
  size_t n_prompt;
  std::string options;
  size_t context;
};

TEST_F(LocalGeneratorTest, NC_RequestsGetTheContextThatTheyNeed) {
  const SizeCase kCases[] = {{8192, 10, R"({"num_predict":100})", 1024},
                             {8192, 924, R"({"num_predict":100})", 1024},
                             {8192, 925, R"({"num_predict":100})", 2048},
                             {8192, 1000, R"({"num_predict":1024})", 2048},
                             {8192, 7000, R"({"num_predict":1193})", 8192},
                             {8192, 10, R"({"num_predict":-1})", 8192},
                             {8192, 10, "{}", 8192},
                             {8192, 10, R"({"num_ctx":512})", 8192},
                             {8192, 10, R"({"num_ctx":512,"num_predict":600})", 1024},
                             {8192, 10, R"({"num_ctx":1000000,"num_predict":1})", 1024},
                             {2000, 1000, R"({"num_predict":500})", 2000},
                             {512, 10, R"({"num_predict":10})", 512},
                             {131072, 50, R"({"num_predict":256})", 1024}};
  for (const SizeCase& one : kCases) {
    models.add({.go = kLines, .max_context = one.max_context});
    GenerationRequest request = prompt(std::string(one.n_prompt, 'x'), one.options);
    request.raw = true;
    const RecordingSink sink = run(request);
    EXPECT_EQ(last_completion().prompt.size(), one.n_prompt);
    EXPECT_EQ(last_completion().max_context, one.context) << one.n_prompt << " " << one.options;
    EXPECT_EQ(sink.size.context, one.context);
    EXPECT_EQ(contexts.of(models.catalog.find("m")->key), one.context);
    EXPECT_FALSE(sink.size.reason.empty());
  }
}

TEST_F(LocalGeneratorTest, DoesNotRenderForADisconnectedClient) {
  LocalGenerator generator(models.catalog, scheduler, metrics, contexts, slots, addresses, {});
  metrics::Trace trace("id", "/api/chat", "node");
  GenerationRequest request{.kind = GenerationKind::kChat, .model = "m"};
  for (int i = 0; i < 500; ++i) request.messages.push_back(text_message("user", "hello"));
  // The catalog has the model already, because lookups for a disconnected client do not wait for
  // files.
  ASSERT_NE(models.catalog.find("m"), nullptr);
  std::stop_source gone;
  gone.request_stop();
  RecordingSink sink;
  EXPECT_THROW(generator.run(request, sink, gone.get_token(), trace), scheduler::Cancelled);
  const std::string spans = trace.to_json().dump();
  EXPECT_NE(spans.find("found"), std::string::npos);
  EXPECT_EQ(spans.find("rendered"), std::string::npos);
  EXPECT_TRUE(runners.completions().empty());
}

TEST_F(LocalGeneratorTest, NC27_NumCtxIsACapIfTheServerSaysSo) {
  models.add({.go = kLines, .max_context = 8192});
  const GenerationPolicy cap{.num_ctx = NumCtxPolicy::kCap};
  EXPECT_EQ(run_with(cap, prompt("hi", R"({"num_ctx":2048})")).size.context, 2048u);
  EXPECT_EQ(run_with(cap, prompt("hi", R"({"num_ctx":10})")).size.context, 256u);
  EXPECT_EQ(run_with(cap, prompt("hi")).size.context, 8192u);
  EXPECT_EQ(run_with({.max_context = 4096}, prompt("hi")).size.context, 4096u);
}

// The sizes of the server set where a context grows, not how large it gets.
TEST_F(LocalGeneratorTest, TheContextOfARequestIsItsLastRung) {
  models.add({.go = kLines, .max_context = 8192});
  for (const size_t size : {32u, 1024u, 9000u}) {
    const RecordingSink sink = run_with({.sizes = {size}}, prompt("hi", R"({"num_predict":600})"));
    const scheduler::Completion sent = last_completion();
    EXPECT_EQ(context::Ladder(sent.sizes, sent.max_context).top(), sink.size.context);
  }
  run(prompt("hi"));
  EXPECT_TRUE(last_completion().sizes.empty());
}

TEST_F(LocalGeneratorTest, ContextsIgnoreParallelRequestsAndReloadNothing) {
  for (int i = 1; i <= 100; ++i) {
    run(prompt(std::string(static_cast<size_t>(i), 'x'),
               R"({"num_predict":5,"num_ctx":)" + std::to_string(i * 100) + "}"));
    EXPECT_EQ(last_completion().max_context, 1024u);
  }
  EXPECT_EQ(runners.launches().size(), 1u) << "one load for all of them";
  EXPECT_EQ(runners.launches()[0].n_parallel, 4u);
}

TEST_F(LocalGeneratorTest, OptionsReachTheRunner) {
  GenerationRequest request = prompt("hi", R"({"temperature":0,"stop":["x"],"num_predict":5})");
  request.logprobs = true;
  request.top_logprobs = 3;
  run_with({.sizes = {512}, .overflow_policy = "shift", .reserve_batches = 3}, request);
  EXPECT_EQ(last_completion().sampling, (scheduler::Sampling{.temperature = 0.0}));
  EXPECT_EQ(last_completion().stop, std::vector<std::string>{"x"});
  EXPECT_EQ(last_completion().num_predict, 5);
  EXPECT_TRUE(last_completion().logprobs);
  EXPECT_EQ(last_completion().top_logprobs, 3);
  EXPECT_EQ(last_completion().sizes, (std::vector<size_t>{512, 1024}));
  EXPECT_EQ(last_completion().overflow_policy, "shift");
  EXPECT_EQ(last_completion().reserve_batches, 3u);
}

TEST_F(LocalGeneratorTest, AnswersWithoutALimitEndAfterTenContexts) {
  run(prompt("hi"));
  EXPECT_EQ(last_completion().num_predict, 20480);
  EXPECT_EQ(last_completion().overflow_policy, "refill");
}

TEST_F(LocalGeneratorTest, AnswersEndAtAFullContextIfCompactionIsImpossible) {
  GenerationRequest request = prompt("hi");
  request.shift = false;
  run(request);
  EXPECT_EQ(last_completion().overflow_policy, "stop");
  EXPECT_EQ(last_completion().num_predict, -1);
  run(prompt("hi", R"({"num_predict":-2})"));
  EXPECT_EQ(last_completion().overflow_policy, "stop");
  const RecordingSink sink = run(prompt(std::string(1500, 'x')));
  EXPECT_EQ(last_completion().overflow_policy, "stop") << "the prompt is more than half of 2048";
  EXPECT_NE(sink.size.reason.find("ends when the context is full"), std::string::npos);
  run(prompt(std::string(1500, 'x'), R"({"num_predict":10})"));
  EXPECT_EQ(last_completion().overflow_policy, "refill") << "it fits";
}

TEST_F(LocalGeneratorTest, EmptyRequestsLoadAndUnloadModels) {
  EXPECT_EQ(run(prompt("")).ends.at(0).done_reason, "load");
  EXPECT_EQ(runners.launches().size(), 1u);
  EXPECT_TRUE(runners.completions().empty());
  GenerationRequest chat{.kind = GenerationKind::kChat, .model = "m"};
  EXPECT_EQ(run(chat).ends.at(0).done_reason, "load");
  chat.keep_alive = scheduler::Duration::zero();
  EXPECT_EQ(run(chat).ends.at(0).done_reason, "unload");
  EXPECT_EQ(run(chat).ends.at(0).done_reason, "unload") << "a model that is not loaded is no error";
}

TEST_F(LocalGeneratorTest, UnloadsABrokenModel) {
  GenerationRequest request = prompt("");
  request.keep_alive = scheduler::Duration::zero();
  EXPECT_EQ(run(request).ends.at(0).done_reason, "unload");
  run(prompt("hi"));
  ASSERT_EQ(scheduler.state().models.size(), 1u);
  models.add({.go = kLines, .renderer = "nonsense"});
  EXPECT_EQ(refusal(prompt("hi")), "500 unknown renderer \"nonsense\"");
  EXPECT_EQ(refusal(prompt("")), "500 unknown renderer \"nonsense\"");
  EXPECT_EQ(run(request).ends.at(0).done_reason, "unload");
  EXPECT_TRUE(nothing_is_loaded());
  EXPECT_EQ(run(request).ends.at(0).done_reason, "unload") << "it is not loaded";
}

TEST_F(LocalGeneratorTest, UnloadsTheRunnersThatANameHadBefore) {
  GenerationRequest end = prompt("");
  end.keep_alive = scheduler::Duration::zero();
  run(prompt("hi"));
  models.add({.go = kLines, .max_context = 8192});
  EXPECT_EQ(run(end).ends.at(0).done_reason, "unload");
  EXPECT_TRUE(nothing_is_loaded());
  run(prompt("hi"));
  ASSERT_TRUE(models.store.remove(*store::parse_name("m")));
  EXPECT_EQ(run(end).ends.at(0).done_reason, "unload");
  EXPECT_TRUE(nothing_is_loaded());
  EXPECT_TRUE(refusal(end).starts_with("404 ")) << "nothing is loaded";
}

TEST_F(LocalGeneratorTest, RendersWithoutARunner) {
  GenerationRequest request = prompt("hi");
  request.render_only = true;
  EXPECT_EQ(run(request).text, "user: hi\nassistant:");
  EXPECT_TRUE(runners.launches().empty());
}

TEST_F(LocalGeneratorTest, CountsPromptsBeyondTheContext) {
  GenerationRequest request = prompt("");
  for (int i = 0; i < 5000; ++i) request.prompt += "hello ";
  request.render_only = true;
  EXPECT_THROW(run(request), http::StatusError);
  request.counts_only = true;
  const RecordingSink sink = run(request);
  EXPECT_GT(sink.size.n_prompt_full, 2048u);
  EXPECT_EQ(sink.size.n_prompt, sink.size.n_prompt_full);
  EXPECT_EQ(sink.size.max_context, 2048u);
  EXPECT_EQ(sink.text.size(), request.prompt.size() + std::string("user: \nassistant:").size());
  EXPECT_TRUE(runners.launches().empty());
}

TEST_F(LocalGeneratorTest, SeparatesThinkingAndToolCalls) {
  models.add({.jinja = "{% for m in messages %}{{ m.content }}{% endfor %}{{ tools }}"
                       "{# <tool_call></tool_call><think></think> 'tool' #}"});
  change([](scheduler::FakeScript& script) {
    script.pieces = {"<th",
                     "ink>h",
                     "m</think>",
                     "So ",
                     "<tool_call>{\"name\":\"add\",",
                     "\"arguments\":{\"a\":1}}</tool_call>"};
  });
  GenerationRequest request{.kind = GenerationKind::kChat, .model = "m"};
  request.messages = {text_message("user", "q")};
  request.tools = {
      {.name = "add", .declaration = {{"type", "function"}, {"function", {{"name", "add"}}}}}};
  const RecordingSink sink = run(request);
  EXPECT_EQ(sink.whole().thinking, "hm");
  EXPECT_EQ(sink.whole().text, "So");
  ASSERT_EQ(sink.whole().calls.size(), 1u);
  EXPECT_EQ(sink.whole().calls[0].arguments, R"({"a":1})");
  EXPECT_TRUE(sink.whole().calls[0].id.starts_with("call_"));
}

// The arguments of a call that a stop string cuts off are not whole.
TEST_F(LocalGeneratorTest, AStopStringOfTheRequestCompletesNoCall) {
  models.add({.jinja = "{% for m in messages %}{{ m.content }}{% endfor %}{{ tools }}"
                       "{# <tool_call></tool_call> 'tool' #}"});
  GenerationRequest request{.kind = GenerationKind::kChat, .model = "m"};
  request.messages = {text_message("user", "q")};
  request.tools = {
      {.name = "add", .declaration = {{"type", "function"}, {"function", {{"name", "add"}}}}}};
  const auto n_calls = [&](const std::string& text, const std::string& stop) {
    change([&](scheduler::FakeScript& script) {
      script.pieces = {text};
      script.end.stop_string = stop;
    });
    return run(request).whole().calls.size();
  };
  const std::string part = R"(<tool_call>{"name":"add","arguments":{"a":1)";
  EXPECT_EQ(n_calls(part, ""), 1u) << "the model has ended its answer";
  EXPECT_EQ(n_calls(part, ","), 1u) << "a stop string of the model";
  request.options = options_of_text(R"({"stop":[",","</tool_call>"]})");
  EXPECT_EQ(n_calls(part, ""), 1u);
  EXPECT_EQ(n_calls(part, ","), 0u);
  EXPECT_EQ(n_calls(part + "}}", "</tool_call>"), 1u);
  EXPECT_EQ(n_calls(part + "}}</tool_call> a", ","), 1u);
}

// Calls that have no marker cannot be held to the schemas of strict tools.
TEST_F(LocalGeneratorTest, TraceNamesStrictToolsThatAreNotEnforced) {
  GenerationRequest request{.kind = GenerationKind::kChat, .model = "m"};
  request.messages = {text_message("user", "q")};
  request.tools = {{.name = "add",
                    .declaration = {{"type", "function"}, {"function", {{"name", "add"}}}},
                    .strict = true}};
  for (const bool has_marker : {false, true}) {
    models.add({.jinja = std::string("{% for m in messages %}{{ m.content }}{% endfor %}") +
                         (has_marker ? "{{ tools }}{# <tool_call></tool_call> 'tool' #}"
                                     : "{{ tools }}{# 'tool' #}")});
    run(request);
    EXPECT_EQ(last_completion().constraint.has_value(), has_marker);
    EXPECT_EQ(last_trace.dump().find("strict is not enforced") == std::string::npos, has_marker);
  }
}

// A broken call and the whole one after it have different numbers.
TEST_F(LocalGeneratorTest, OnlyCallIsTheFirstWholeOne) {
  models.add({.jinja = "{% for m in messages %}{{ m.content }}{% endfor %}{{ tools }}"
                       "{# <tool_call><function=<parameter= #}"});
  change([](scheduler::FakeScript& script) {
    script.pieces = {"<tool_call>\n<function=run>\n<parameter=cmd>\nls\n</parameter>\n",
                     "<parameter=timeout\n5</parameter></function></tool_call>\n"};
    for (const char* a : {"1", "2"})
      script.pieces.push_back("<tool_call>\n<function=run>\n<parameter=cmd>\n" + std::string(a) +
                              "\n</parameter>\n</function>\n</tool_call>\n");
  });
  GenerationRequest request{.kind = GenerationKind::kChat, .model = "m"};
  request.messages = {text_message("user", "q")};
  request.tools = {
      {.name = "run", .declaration = {{"type", "function"}, {"function", {{"name", "run"}}}}}};
  const auto calls = [&] {
    std::string texts;
    const RecordingSink sink = run(request);
    for (const WrittenCall& call : sink.whole().calls) texts += call.arguments + "\n";
    return texts;
  };
  EXPECT_EQ(calls(), "{\"cmd\": \"1\"}\n{\"cmd\": \"2\"}\n");
  request.tool_choice.parallel = false;
  EXPECT_EQ(calls(), "{\"cmd\": \"1\"}\n");
}

// The text of the first tokens may be held back.
TEST_F(LocalGeneratorTest, AnswersBeginWhenThePromptIsRead) {
  class Begun : public RecordingSink {
   public:
    void begun() override { begins.push_back(n_signs); }
    std::vector<size_t> begins;  // signs before each call
  } sink;
  change([](scheduler::FakeScript& script) {
    script.whole_pieces = {{.prefill = {{1, {}}}},
                           {.prefill = {{1000, {}}}},
                           {.events = {R"({"type":"transition"})"}},
                           {.text = "Hello"}};
  });
  run(prompt(""));  // loads: a slow load gives signs, too
  run_into(sink, prompt("hi"));
  EXPECT_EQ(sink.begins, std::vector<size_t>{1});
  EXPECT_EQ(sink.whole().text, "Hello");
}

TEST_F(LocalGeneratorTest, ReportsErrorsOfTheRequest) {
  GenerationRequest request = prompt("hi");
  request.model = "nope";
  EXPECT_EQ(refusal(request), "404 model 'nope' not found");
  request.model = "";
  EXPECT_EQ(refusal(request), "404 model '' not found");
  request.model = "a b";
  EXPECT_EQ(refusal(request), "400 invalid model name");
  request = prompt("hi");
  request.grammar = {.kind = constraint::GrammarKind::kJsonSchema, .text = R"({"type":"x"})"};
  EXPECT_TRUE(refusal(request).starts_with("400 ")) << refusal(request);
  EXPECT_TRUE(runners.launches().empty()) << "nothing is loaded for it";
}

TEST_F(LocalGeneratorTest, ReportsErrorsOfTheRunner) {
  change([](scheduler::FakeScript& script) {
    script.n_load_failures = 1;
    script.load_failure = "no such tensor";
  });
  EXPECT_NE(refusal(prompt("hi")).find("no such tensor"), std::string::npos);
  change([](scheduler::FakeScript& script) { script.end.error = "out of memory"; });
  EXPECT_EQ(refusal(prompt("hi")), "500 out of memory");
}

TEST_F(LocalGeneratorTest, DisconnectedClientEndsTheAnswer) {
  RecordingSink sink;
  sink.max_deltas = 1;
  EXPECT_THROW(run_into(sink, prompt("hi")), scheduler::Cancelled);
  EXPECT_EQ(sink.whole().text, "Hello");
  EXPECT_TRUE(sink.ends.empty());
}

// The metrics and the API key get the same numbers, however the answer ends.
TEST_F(LocalGeneratorTest, CountsAnswersThatFail) {
  const auto usage_of = [&](size_t max_deltas) {
    LocalGenerator generator(models.catalog, scheduler, metrics, contexts, slots, addresses, {});
    metrics::Trace trace("id", "/api/generate", "node");
    RecordingSink sink;
    sink.max_deltas = max_deltas;
    const metrics::Metrics::Tokens before = metrics.totals();
    EXPECT_ANY_THROW(generator.run(prompt("hi"), sink, {}, trace));
    const metrics::Metrics::Tokens after = metrics.totals();
    const metrics::Usage usage = trace.usage();
    EXPECT_EQ(after.n_prompt - before.n_prompt, usage.n_prompt);
    EXPECT_EQ(after.n_generated - before.n_generated, usage.n_generated);
    return usage;
  };
  const metrics::Usage left = usage_of(1);  // the client leaves
  EXPECT_EQ(left.n_prompt, last_completion().prompt.size());
  EXPECT_EQ(left.n_generated, 1u) << "about: it has 5 bytes";
  change([](scheduler::FakeScript& script) {
    script.n_deaths = 1;
    script.dies_after = 1;
  });
  const metrics::Usage died = usage_of(1000);
  EXPECT_EQ(died.n_prompt, last_completion().prompt.size());
  EXPECT_EQ(died.n_generated, 1u);
  change([](scheduler::FakeScript& script) { script.end.error = "no memory"; });
  const metrics::Usage failed = usage_of(1000);
  EXPECT_EQ(failed.n_prompt, 3u) << "as the runner reports";
  EXPECT_EQ(failed.n_generated, 2u);
  change([](scheduler::FakeScript& script) { script.refusal_status = 400; });
  EXPECT_EQ(usage_of(1000).n_prompt, 0u) << "nothing was evaluated";
  const std::string text = metrics.text({}, false);
  EXPECT_NE(text.find("billow_time_to_first_token_seconds_count{model=\"m:latest\","
                      "route=\"/api/generate\"} 3\n"),
            std::string::npos)
      << text;
}

TEST_F(LocalGeneratorTest, CountsWhatADeadRunnerHasRead) {
  change([](scheduler::FakeScript& script) {
    script.whole_pieces = {{.prefill = {{2, {}}}}, {.text = "Hello"}};
    script.n_deaths = 2;  // the request waits for another runner once
    script.dies_after = 1;
  });
  LocalGenerator generator(models.catalog, scheduler, metrics, contexts, slots, addresses, {});
  metrics::Trace trace("id", "/api/generate", "node");
  RecordingSink sink;
  EXPECT_THROW(generator.run(prompt("hi"), sink, {}, trace), http::StatusError);
  EXPECT_EQ(trace.usage().n_prompt, 2u);
  EXPECT_EQ(trace.usage().n_generated, 0u);
  EXPECT_EQ(metrics.totals().n_prompt, 2u);
}

TEST_F(LocalGeneratorTest, RestartsAnUnsentAnswerIfTheRunnerDies) {
  change([](scheduler::FakeScript& script) {
    script.n_deaths = 1;
    script.dies_after = 1;
  });
  class Whole : public RecordingSink {
   public:
    bool holds_back() const override { return true; }
    void restart(size_t) override {
      parts.clear();
      ++n_restarts;
    }
    int n_restarts = 0;
  } sink;
  run_into(sink, prompt("hi"));
  EXPECT_EQ(sink.whole().text, "Hello there");
  EXPECT_EQ(sink.n_restarts, 1);
  ASSERT_EQ(sink.ends.size(), 1u);

  change([](scheduler::FakeScript& script) { script.n_deaths = 1; });
  RecordingSink streamed;
  EXPECT_THROW(run_into(streamed, prompt("hi")), http::StatusError);
  EXPECT_EQ(streamed.whole().text, "Hello");
}

TEST_F(LocalGeneratorTest, LimitsRepetitions) {
  run(prompt("hi"));
  EXPECT_EQ(last_completion().max_repeats, 30u);
  // Only the runner sees tokens. Equal pieces of text are not a repetition here.
  change([](scheduler::FakeScript& script) { script.pieces.assign(100, " la"); });
  EXPECT_EQ(run(prompt("hi")).whole().text.size(), 300u);
}

TEST_F(LocalGeneratorTest, SendsEventsOnlyOnRequest) {
  change([](scheduler::FakeScript& script) {
    script.whole_pieces = {
        {.text = "a"},
        {.events = {R"({"type":"transition","text":"[transition] ctx512 -> ctx1024"})"}},
        {.text = "b"}};
  });
  GenerationRequest request = prompt("hi");
  EXPECT_TRUE(run(request).whole().notices.empty());
  request.live_events = true;
  EXPECT_EQ(run(request).whole().notices.size(), 1u);
}

TEST_F(LocalGeneratorTest, TraceHasAllStages) {
  change([](scheduler::FakeScript& script) {
    script.load_delay = std::chrono::milliseconds(5);
    script.whole_pieces = {
        {.prefill = {{2, std::chrono::milliseconds(1)}}},
        {.text = "a"},
        {.events = {R"({"type":"transition","text":"[transition] ctx512 -> ctx1024"})"}},
        {.text = "b"}};
  });
  run(prompt("hi"));
  std::vector<std::string> names;
  for (const Json& span : last_trace["spans"]) names.push_back(span["name"]);
  for (const char* name : {"found", "rendered", "tokenised", "sized", "queued", "loading",
                           "assigned", "slot", "prefill", "first token", "transition", "decode"})
    EXPECT_NE(std::ranges::find(names, name), names.end()) << name << " in " << last_trace.dump();
}

}  // namespace
}  // namespace billow::api
