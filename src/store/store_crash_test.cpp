// Interrupts every operation at every step that changes the disk, by an exception and by the death
// of the process. Afterwards, the store has the state before or after the operation.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/test_folder.h"
#include "store/sample_model.h"
#include "store/store.h"

namespace billow::store {
namespace {

constexpr int kDead = 77;

struct Operation {
  const char* name;
  std::function<void(Store&)> run;
  // Returns a state of the store that differs before and after the operation.
  std::function<std::string(const Store&)> state;
};

std::string names_in(const Store& store) {
  std::string text;
  for (const char* name : {"a", "b", "u/new", "u/copy"}) {
    text += std::string(name) + "=" + sample_weights(store, name) + " ";
  }
  return text;
}

const Operation kOperations[] = {
    {"add a blob", [](Store& store) { store.add_layer(kSystemLayer, "some text"); },
     [](const Store& store) { return store.has_blob(digest_of("some text")) ? "yes" : "no"; }},
    {"put a new model", [](Store& store) { put_sample(store, "u/new", "weights"); }, names_in},
    {"put a model again", [](Store& store) { put_sample(store, "a", "other"); }, names_in},
    {"copy", [](Store& store) { EXPECT_TRUE(store.copy(named("a"), named("u/copy"))); }, names_in},
    {"copy over", [](Store& store) { EXPECT_TRUE(store.copy(named("a"), named("b"))); }, names_in},
    {"remove", [](Store& store) { static_cast<void>(store.remove(named("b"))); }, names_in},
    {"prune", [](Store& store) { store.prune(std::chrono::seconds(0)); },
     [](const Store& store) { return store.has_blob(digest_of("unused")) ? "yes" : "no"; }},
};

void prepare(const std::string& folder) {
  Store store(folder);
  put_sample(store, "a", "x");
  put_sample(store, "b", "y");
  store.add_layer(kSystemLayer, "unused");
}

// Runs the operation until step `last_step` and calls `end` there. Returns the number of steps.
int run_until(const std::string& folder, const Operation& operation, int last_step,
              const std::function<void()>& end) {
  int step = 0;
  Store store(folder, {.before_step = [&](std::string_view) {
                if (step++ == last_step) end();
              }});
  operation.run(store);
  return step;
}

void check_left(const std::string& folder, const Operation& operation, const std::string& before,
                const std::string& after) {
  Store store(folder);
  const std::string left = operation.state(store);
  EXPECT_TRUE(left == before || left == after) << left;
  EXPECT_NO_THROW(store.list());
  EXPECT_EQ(unsound_model(store), "");
  operation.run(store);  // the operation now succeeds
  EXPECT_EQ(operation.state(store), after);
  store.prune(std::chrono::seconds(0));
  EXPECT_EQ(unsound_model(store), "");
  for (const auto& entry : std::filesystem::directory_iterator(folder + "/blobs")) {
    EXPECT_TRUE(Digest::parse(entry.path().filename().string())) << entry.path();
  }
  for (const auto& entry : std::filesystem::directory_iterator(folder + "/manifests"))
    EXPECT_TRUE(entry.is_directory()) << entry.path();
}

class StoreCrash : public testing::TestWithParam<int> {};

TEST_P(StoreCrash, LeavesTheOldStateOrTheNew) {
  const Operation& operation = kOperations[GetParam()];
  const TestFolder whole;
  prepare(whole.path());
  const std::string before = operation.state(Store(whole.path()));
  const int n_steps = run_until(whole.path(), operation, -1, [] {});
  const std::string after = operation.state(Store(whole.path()));
  ASSERT_NE(before, after);
  ASSERT_GT(n_steps, 0);
  for (int step = 0; step < n_steps; ++step) {
    SCOPED_TRACE(std::string(operation.name) + ", step " + std::to_string(step));
    const TestFolder thrown;
    prepare(thrown.path());
    EXPECT_THROW(run_until(thrown.path(), operation, step,
                           [] { throw Error(ErrorCode::kIo, "the disk is full"); }),
                 Error);
    check_left(thrown.path(), operation, before, after);

    const TestFolder died;
    prepare(died.path());
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      run_until(died.path(), operation, step, [] { ::_exit(kDead); });
      ::_exit(0);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == kDead);
    check_left(died.path(), operation, before, after);
  }
}

INSTANTIATE_TEST_SUITE_P(Operations, StoreCrash,
                         testing::Range(0, static_cast<int>(std::size(kOperations))));

}  // namespace
}  // namespace billow::store
