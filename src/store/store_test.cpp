#include "store/store.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <random>
#include <set>
#include <thread>

#include "base/error.h"
#include "base/test_folder.h"
#include "store/sample_model.h"

namespace billow::store {
namespace {

namespace fs = std::filesystem;

ByteSource source_of(std::string text, size_t max = 7) {
  return [text = std::move(text), max, at = size_t{0}](std::span<std::byte> part) mutable {
    const size_t n = std::min({part.size(), text.size() - at, max});
    std::ranges::copy(std::as_bytes(std::span(text)).subspan(at, n), part.begin());
    at += n;
    return n;
  };
}

std::set<std::string> files_in(const fs::path& folder) {
  std::set<std::string> files;
  if (!fs::exists(folder)) return files;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    files.insert(fs::relative(entry.path(), folder).string());
  }
  return files;
}

void set_age(const fs::path& path, std::chrono::seconds age) {
  fs::last_write_time(path, fs::file_time_type::clock::now() - age);
}

TEST(Store, AMissingFolderIsAnEmptyStore) {
  const TestFolder folder;
  Store store(folder.path() + "/not/there");
  EXPECT_TRUE(store.list().empty());
  EXPECT_FALSE(store.find(named("m")));
  EXPECT_FALSE(store.remove(named("m")));
  EXPECT_FALSE(store.copy(named("m"), named("n")));
  EXPECT_FALSE(store.has_blob(digest_of("x")));
  EXPECT_EQ(store.prune().n_blobs, 0u);
  EXPECT_FALSE(fs::exists(folder.path() + "/not"));
  EXPECT_TRUE(store.add_blob(digest_of("x"), source_of("x")));
  EXPECT_TRUE(store.has_blob(digest_of("x")));
}

TEST(Store, ABlobIsStoredUnderItsDigest) {
  const TestFolder folder;
  Store store(folder.path());
  const std::string text(3000, 'x');
  const Digest digest = digest_of(text);
  EXPECT_TRUE(store.add_blob(digest, source_of(text)));
  EXPECT_EQ(store.blob_path(digest), folder.path() + "/blobs/" + digest.file_name());
  EXPECT_EQ(read_test_file(store.blob_path(digest)), text);
  EXPECT_EQ(store.read_blob(digest), text);
  EXPECT_THROW(store.read_blob(digest, 2999), Error);
  EXPECT_THROW(store.read_blob(digest_of("absent")), Error);
  const bool added = store.add_blob(digest, [](std::span<std::byte>) -> size_t {
    ADD_FAILURE() << "read although the blob exists";
    return 0;
  });
  EXPECT_FALSE(added);
  EXPECT_EQ(files_in(folder.path() + "/blobs").size(), 1u);
}

TEST(Store, AWrongDigestIsAnErrorWithBothDigests) {
  const TestFolder folder;
  Store store(folder.path());
  const Digest digest = digest_of("right");
  try {
    store.add_blob(digest, source_of("wrong"));
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidInput);
    EXPECT_EQ(std::string(error.what()), "digest mismatch, expected \"" + digest.text() +
                                             "\", got \"" + digest_of("wrong").text() + "\"");
  }
  EXPECT_THROW(store.add_blob(digest,
                              [](std::span<std::byte>) -> size_t {
                                throw Error(ErrorCode::kIo, "the client has gone");
                              }),
               Error);
  EXPECT_TRUE(files_in(folder.path() + "/blobs").empty());
}

TEST(Store, FindsAndListsStoredModels) {
  const TestFolder folder;
  Store store(folder.path());
  put_sample(store, "one:a", "first");
  put_sample(store, "host:1/two/three", "second");
  const auto model = store.find(named("one:a"));
  ASSERT_TRUE(model);
  const fs::path path = folder.path() + "/manifests/registry.ollama.ai/library/one/a";
  EXPECT_EQ(model->digest, digest_of(read_test_file(path)));
  EXPECT_EQ(model->manifest.total_bytes(),
            5 + 13 + fs::file_size(store.blob_path(model->manifest.config.digest)));
  set_age(path, std::chrono::hours(1));
  auto list = store.list();
  ASSERT_EQ(list.size(), 2u);
  EXPECT_EQ(display_name(list[0].name), "host:1/two/three:latest");
  EXPECT_EQ(display_name(list[1].name), "one:a");
  EXPECT_GT(list[0].modified, list[1].modified);
  set_age(folder.path() + "/manifests/host:1/two/three/latest", std::chrono::hours(2));
  EXPECT_EQ(display_name(store.list()[0].name), "one:a");
}

TEST(Store, LookUpIgnoresCase) {
  const TestFolder folder;
  Store store(folder.path());
  put_sample(store, "llama3.2:1b", "x");
  put_sample(store, "foo:x", "y");
  EXPECT_EQ(display_name(store.find(named("LLAMA3.2:1B"))->name), "llama3.2:1b");
  EXPECT_EQ(display_name(put_sample(store, "Foo:bar", "z")), "foo:bar");
  EXPECT_EQ(display_name(put_sample(store, "FOO:X", "z")), "foo:x");
  EXPECT_EQ(store.list().size(), 3u);
  ASSERT_TRUE(store.copy(named("FOO:x"), named("LLAMA3.2:1b")));
  EXPECT_EQ(sample_weights(store, "llama3.2:1b"), "z");
  EXPECT_EQ(store.list().size(), 3u);
  ASSERT_TRUE(store.remove(named("Llama3.2:1B")));
  EXPECT_EQ(store.list().size(), 2u);
}

// Other programs may store names that differ only in case, on a case-sensitive file system.
TEST(Store, PrefersTheRequestedSpelling) {
  const TestFolder folder;
  Store store(folder.path());
  put_sample(store, "a:t", "lower");
  const fs::path models = folder.path() + "/manifests/registry.ollama.ai/library";
  write_test_file(models / "A/t", read_test_file(models / "a/t"));
  write_test_file(folder.path() + "/manifests/registry.ollama.ai/U/a/t",
                  read_test_file(models / "a/t"));
  EXPECT_EQ(store.resolve(named("A:t")).model, "A");
  EXPECT_EQ(store.resolve(named("a:t")).model, "a");
  EXPECT_EQ(store.resolve(named("u/A:T")), named("U/a:t"));
  EXPECT_EQ(store.resolve(named("u/A:other")), named("U/A:other"));
}

TEST(Store, ListLeavesOutBrokenModelsAndFindNamesThem) {
  const TestFolder folder;
  Store store(folder.path());
  put_sample(store, "good", "x");
  const fs::path library = folder.path() + "/manifests/registry.ollama.ai/library";
  write_test_file(library / "bad/latest", "{\"schemaVersion\":2");
  write_test_file(library / "bad/.DS_Store", "x");
  write_test_file(library / "stray", "x");
  write_test_file(library / "-bad/latest", "x");
  fs::create_directories(library / "deep/folder/below");
  ASSERT_EQ(store.list().size(), 1u);
  try {
    store.find(named("bad"));
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find((library / "bad/latest").string()), std::string::npos);
  }
  EXPECT_FALSE(store.find(named("stray")));
  EXPECT_THROW((void)store.copy(named("bad"), named("worse")), Error);
  EXPECT_TRUE(store.remove(named("bad")));
  EXPECT_EQ(sample_weights(store, "good"), "x");
}

TEST(Store, CopyKeepsAllBytes) {
  const TestFolder folder;
  Store store(folder.path());
  put_sample(store, "a", "x");
  const fs::path root = folder.path() + "/manifests/registry.ollama.ai/library";
  // Other programs may write other bytes than Billow.
  const std::string bytes = read_test_file(root / "a/latest") + "\n";
  write_test_file(root / "a/latest", bytes);
  ASSERT_TRUE(store.copy(named("a"), named("user/b:c")));
  EXPECT_EQ(read_test_file(root / "../user/b/c"), bytes);
  EXPECT_FALSE(store.copy(named("absent"), named("d")));
  EXPECT_FALSE(store.find(named("d")));
  EXPECT_TRUE(store.copy(named("a"), named("A")));
  EXPECT_EQ(store.list().size(), 2u);
}

TEST(Store, RemoveAlsoRemovesUnusedBlobs) {
  const TestFolder folder;
  Store store(folder.path());
  put_sample(store, "u/a", "x");
  put_sample(store, "b", "y");
  ASSERT_TRUE(store.copy(named("b"), named("c")));
  EXPECT_EQ(files_in(folder.path() + "/blobs").size(), 5u);
  ASSERT_TRUE(store.remove(named("u/a")));
  EXPECT_FALSE(store.remove(named("u/a")));
  EXPECT_EQ(files_in(folder.path() + "/blobs").size(), 3u);
  EXPECT_FALSE(fs::exists(folder.path() + "/manifests/registry.ollama.ai/u"));
  ASSERT_TRUE(store.remove(named("b")));
  EXPECT_EQ(files_in(folder.path() + "/blobs").size(), 3u);
  EXPECT_EQ(sample_weights(store, "c"), "y");
  ASSERT_TRUE(store.remove(named("c")));
  EXPECT_TRUE(files_in(folder.path() + "/blobs").empty());
  EXPECT_TRUE(files_in(folder.path() + "/manifests").empty());
}

TEST(Store, RemovesNoBlobWhileAManifestCannotBeRead) {
  const TestFolder folder;
  Store store(folder.path());
  put_sample(store, "a", "x");
  write_test_file(folder.path() + "/manifests/h/n/m/t", "broken");
  ASSERT_TRUE(store.remove(named("a")));
  EXPECT_EQ(files_in(folder.path() + "/blobs").size(), 3u);
  EXPECT_EQ(store.prune(std::chrono::seconds(0)).n_blobs, 0u);
  ASSERT_TRUE(store.remove(named("h/n/m:t")));
  EXPECT_EQ(store.prune(std::chrono::seconds(0)).n_blobs, 3u);
}

TEST(Store, ReplacingAModelRemovesItsOldBlobs) {
  const TestFolder folder;
  Store store(folder.path());
  put_sample(store, "a", "x");
  put_sample(store, "a", "y");
  EXPECT_EQ(sample_weights(store, "a"), "y");
  EXPECT_EQ(files_in(folder.path() + "/blobs").size(), 3u);
  EXPECT_FALSE(store.has_blob(digest_of("x")));
}

TEST(Store, ACopyOverAModelRemovesItsOldBlobs) {
  const TestFolder folder;
  Store store(folder.path());
  put_sample(store, "a", "x");
  put_sample(store, "b", "y");
  EXPECT_TRUE(store.copy(named("a"), named("b")));
  EXPECT_EQ(sample_weights(store, "b"), "x");
  EXPECT_FALSE(store.has_blob(digest_of("y")));
  EXPECT_EQ(files_in(folder.path() + "/blobs").size(), 3u);
  EXPECT_TRUE(store.copy(named("a"), named("A")));
  EXPECT_EQ(unsound_model(store), "");
}

TEST(Store, ABlobOfAWrongSizeIsReplaced) {
  const TestFolder folder;
  Store store(folder.path());
  const std::string text(3000, 'x');
  put_sample(store, "a", text);
  const Digest digest = digest_of(text);
  EXPECT_TRUE(store.has_blob(digest, 3000));
  EXPECT_TRUE(store.has_whole_blob(digest));
  EXPECT_FALSE(store.has_whole_blob(digest_of("absent")));
  fs::resize_file(store.blob_path(digest), 1000);
  EXPECT_TRUE(store.has_blob(digest));
  EXPECT_FALSE(store.has_blob(digest, 3000));
  EXPECT_FALSE(store.has_whole_blob(digest)) << "the manifest gives it another size";
  EXPECT_THROW(store.add_blob(digest, source_of("wrong"), 5), Error);
  EXPECT_EQ(fs::file_size(store.blob_path(digest)), 1000u);
  EXPECT_TRUE(store.add_blob(digest, source_of(text), 3000));
  EXPECT_EQ(sample_weights(store, "a"), text);
  fs::resize_file(store.blob_path(digest), 1000);
  put_sample(store, "a", text);
  EXPECT_EQ(sample_weights(store, "a"), text);
}

TEST(Store, AMadeLayerReplacesABlobOfAWrongSize) {
  const TestFolder folder;
  Store store(folder.path());
  write_test_file(folder.path() + "/blobs/" + digest_of("made").file_name(), "ma");
  Store::Hold hold(store);
  bool is_new = false;
  const auto make = [](const ByteSink& sink) {
    sink(std::as_bytes(std::span(std::string_view("made"))));
  };
  store.add_made_layer(kModelLayer, make, hold, &is_new);
  EXPECT_TRUE(is_new);
  EXPECT_EQ(store.read_blob(digest_of("made")), "made");
}

TEST(Store, BlobsMayBeOnAnotherFileSystem) {
  const TestFolder folder;
  // The test folder is in memory, and the current folder is usually on a disk.
  const fs::path other = fs::current_path() / fs::path(folder.path()).filename();
  ASSERT_TRUE(fs::create_directory(other));
  struct stat here{};
  struct stat there{};
  ASSERT_EQ(::stat(folder.path().c_str(), &here) + ::stat(other.c_str(), &there), 0);
  if (here.st_dev != there.st_dev) {
    fs::create_directory_symlink(other, folder.path() + "/blobs");
    Store store(folder.path());
    put_sample(store, "a", "x");
    EXPECT_TRUE(store.copy(named("a"), named("b")));
    EXPECT_EQ(sample_weights(store, "b"), "x");
  }
  fs::remove_all(other);
  if (here.st_dev == there.st_dev) GTEST_SKIP() << "both folders are on one file system";
}

TEST(Store, AnUnfinishedManifestIsNoModelAndIsRemoved) {
  const TestFolder folder;
  const fs::path manifests = folder.path() + "/manifests";
  Store plain(folder.path());
  put_sample(plain, "a", "x");
  const std::set<std::string> before = files_in(folder.path());
  bool fails = false;
  Store store(folder.path(), {.before_step = [&](std::string_view step) {
                if (step != "rename") return;
                EXPECT_EQ(files_in(folder.path() + "/blobs").size(), 3u);
                EXPECT_EQ(std::distance(fs::directory_iterator(manifests), {}), 2);
                EXPECT_EQ(plain.names().size(), 1u);
                if (fails) throw Error(ErrorCode::kIo, "the disk is full");
              }});
  EXPECT_TRUE(store.copy(named("a"), named("u/n:t")));
  EXPECT_TRUE(store.remove(named("u/n:t")));
  fails = true;
  EXPECT_THROW((void)store.copy(named("a"), named("u/n:t")), Error);
  EXPECT_THROW(store.put(named("u/m"), plain.find(named("a"))->manifest), Error);
  EXPECT_EQ(files_in(folder.path()), before) << "no file and no empty folder stays";
  write_test_file(manifests / "latest.partial-17", "of a dead server");
  write_test_file(manifests / "fresh.partial-17", "of another server");
  write_test_file(manifests / "README", "of the user");
  set_age(manifests / "latest.partial-17", std::chrono::hours(2));
  set_age(manifests / "README", std::chrono::hours(2));
  EXPECT_EQ(plain.names().size(), 1u);
  EXPECT_EQ(plain.prune().n_partial, 1u);
  EXPECT_FALSE(fs::exists(manifests / "latest.partial-17"));
  EXPECT_TRUE(fs::exists(manifests / "fresh.partial-17"));
  EXPECT_TRUE(fs::exists(manifests / "README"));
}

TEST(Store, RefusesAManifestWithoutItsBlobs) {
  const TestFolder folder;
  Store store(folder.path());
  Manifest manifest = add_sample(store, "x");
  manifest.layers[0].digest = digest_of("absent");
  EXPECT_THROW(store.put(named("a"), manifest), Error);
  EXPECT_FALSE(store.find(named("a")));
}

TEST(Store, HoldKeepsABlob) {
  const TestFolder folder;
  Store store(folder.path());
  put_sample(store, "a", "x");
  {
    Store::Hold hold(store);
    hold.add(digest_of("x"));
    hold.add(digest_of("x"));
    ASSERT_TRUE(store.remove(named("a")));
    store.prune(std::chrono::seconds(0));
    EXPECT_TRUE(store.has_blob(digest_of("x")));
  }
  EXPECT_EQ(store.prune(std::chrono::seconds(0)).n_blobs, 1u);
  EXPECT_FALSE(store.has_blob(digest_of("x")));
}

TEST(Store, PruneRemovesOldUnusedFiles) {
  const TestFolder folder;
  Store store(folder.path());
  put_sample(store, "a", "x");
  const fs::path blobs = folder.path() + "/blobs";
  const std::string unused = digest_of("unused").file_name();
  const std::string fresh = digest_of("fresh").file_name();
  write_test_file(blobs / unused, "unused");
  write_test_file(blobs / fresh, "fresh");
  write_test_file(blobs / (unused + ".partial-17"), "unu");
  write_test_file(blobs / (fresh + ".partial-17"), "fre");
  write_test_file(blobs / (unused + "-partial"), "of another program");
  write_test_file(blobs / (unused + "-partial-0"), "of another program");
  write_test_file(blobs / "README", "of the user");
  for (const auto& entry : fs::directory_iterator(blobs)) {
    if (!entry.path().filename().string().starts_with(fresh)) {
      set_age(entry.path(), std::chrono::hours(2));
    }
  }
  fs::create_directories(folder.path() + "/manifests/h/n/m");
  const Pruned pruned = store.prune();
  EXPECT_EQ(pruned.n_blobs, 1u);
  EXPECT_EQ(pruned.n_partial, 1u);
  EXPECT_EQ(pruned.n_bytes, 9u);
  EXPECT_EQ(files_in(blobs).size(), 3u + 2 + 3);
  EXPECT_FALSE(fs::exists(blobs / unused));
  EXPECT_FALSE(fs::exists(folder.path() + "/manifests/h"));
  EXPECT_EQ(sample_weights(store, "a"), "x");
}

TEST(Store, PruneRemovesDownloadsThatNobodyContinues) {
  const TestFolder folder;
  Store store(folder.path());
  put_sample(store, "a", "x");
  const fs::path blobs = folder.path() + "/blobs";
  const auto begin = [&](const std::string& name, std::chrono::hours age, bool has_bytes = true) {
    const std::string path = blobs / digest_of(name).file_name();
    if (has_bytes) write_test_file(path + "-partial", "1234");
    for (const char* suffix : {"-partial-0", "-partial-12", "-writing-1"})
      write_test_file(path + suffix, "{}");
    for (const auto& entry : fs::directory_iterator(blobs))
      if (entry.path().string().starts_with(path + "-")) set_age(entry.path(), age);
    return path;
  };
  const std::string week = begin("a week old", std::chrono::hours(7 * 24 + 2));
  const std::string day = begin("a day old", std::chrono::hours(24));
  const std::string stored = begin("x", std::chrono::hours(2));
  const std::string fresh = begin("13", std::chrono::hours(0));
  const std::string empty = begin("records only", std::chrono::hours(2), false);
  const std::string locked = begin("a week old and locked", std::chrono::hours(7 * 24 + 2));
  const std::string resumed = begin("a part is new", std::chrono::hours(7 * 24 + 2));
  set_age(resumed + "-partial-12", std::chrono::hours(2));
  write_test_file(week + "-partial-x", "of the user");
  set_age(week + "-partial-x", std::chrono::hours(1000));
  {
    const UnwrittenFile writer(locked + "-partial");  // takes the lock of a writer
    const Pruned pruned = store.prune();
    EXPECT_EQ(pruned.n_downloads, 3u);
    EXPECT_EQ(pruned.n_bytes, 4u + 6 + 4 + 6 + 6);
  }
  const auto n_files = [&](const std::string& path) {
    return std::ranges::count_if(files_in(blobs), [&](const std::string& file) {
      return (blobs / file).string().starts_with(path + "-");
    });
  };
  EXPECT_EQ(n_files(week), 1);
  EXPECT_EQ(n_files(stored), 0);
  EXPECT_EQ(n_files(empty), 0);
  for (const std::string& path : {day, fresh, locked, resumed}) EXPECT_EQ(n_files(path), 4) << path;
  EXPECT_EQ(sample_weights(store, "a"), "x");
}

TEST(Store, ReadsAndRenamesBlobsOfTheOldLayout) {
  const TestFolder folder;
  Store store(folder.path());
  put_sample(store, "a", "x");
  const Digest digest = digest_of("x");
  const fs::path path = store.blob_path(digest);
  fs::rename(path, folder.path() + "/blobs/" + digest.text());
  EXPECT_EQ(sample_weights(store, "a"), "x");
  EXPECT_FALSE(store.add_blob(digest, source_of("x")));
  store.prune();
  EXPECT_TRUE(fs::exists(path));
  EXPECT_EQ(sample_weights(store, "a"), "x");
}

TEST(Store, NamesAndDigestsCannotLeaveTheFolder) {
  const TestFolder folder;
  Store store(folder.path() + "/store");
  const Manifest manifest = add_sample(store, "x");
  const Name tricks[] = {{.scheme = "", .host = "..", .space = "..", .model = "m", .tag = "t"},
                         {.scheme = "", .host = "h", .space = "n", .model = "m", .tag = "../../x"},
                         {.scheme = "", .host = "h", .space = "n", .model = "/etc", .tag = "t"},
                         {.scheme = "", .host = "h", .space = "", .model = "", .tag = ""}};
  for (const Name& name : tricks) {
    EXPECT_DEATH(store.put(name, manifest), "is_valid");
    EXPECT_DEATH((void)store.remove(name), "is_valid");
  }
  // A foreign manifest cannot name a file outside the store, because a digest is not a path.
  write_test_file(folder.path() + "/store/manifests/h/n/m/t",
                  R"({"schemaVersion":2,"config":{"digest":"sha256-../../../secret","size":1}})");
  EXPECT_THROW(store.find(named("h/n/m:t")), Error);
  EXPECT_EQ(files_in(folder.path()).count("x"), 0u);
}

// Runs `body` as a user without root's privileges, so that file permissions apply.
void as_unprivileged_user(const std::function<void()>& body) {
  const uid_t user = ::geteuid();
  ASSERT_TRUE(user != 0 || ::seteuid(65534) == 0);
  body();
  ASSERT_TRUE(user != 0 || ::seteuid(0) == 0);
}

TEST(Store, ReadsAFolderWithoutWritePermission) {
  const TestFolder folder;
  Store store(folder.path());
  put_sample(store, "a", "x");
  const std::set<std::string> before = files_in(folder.path());
  for (const auto& entry : fs::recursive_directory_iterator(folder.path())) {
    fs::permissions(entry.path(), entry.is_directory() ? fs::perms(0555) : fs::perms(0444));
  }
  fs::permissions(folder.path(), fs::perms(0555));
  as_unprivileged_user([&] {
    EXPECT_EQ(store.list().size(), 1u);
    EXPECT_EQ(sample_weights(store, "A"), "x");
    EXPECT_EQ(store.prune(std::chrono::seconds(0)).n_blobs, 0u);
    for (const std::function<void()>& write :
         std::vector<std::function<void()>>{[&] { store.add_blob(digest_of("y"), source_of("y")); },
                                            [&] { (void)store.copy(named("a"), named("b")); },
                                            [&] { (void)store.remove(named("a")); }}) {
      try {
        write();
        ADD_FAILURE();
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::kPermissionDenied) << error.what();
      }
    }
  });
  for (const auto& entry : fs::recursive_directory_iterator(folder.path())) {
    if (entry.is_directory()) fs::permissions(entry.path(), fs::perms(0755));
  }
  fs::permissions(folder.path(), fs::perms(0755));
  EXPECT_EQ(files_in(folder.path()), before);
}

// Runs random changes and queries, which all succeed. Some of them remove unused blobs of any age.
void use_at_random(Store& store, unsigned seed, std::atomic<int>& n_found) {
  std::mt19937 random(seed);
  for (int i = 0; i < 60; ++i) {
    const std::string name = "m" + std::to_string(random() % 4);
    const std::string other = "n/m" + std::to_string(random() % 4);
    const std::string weights = "w" + std::to_string(random() % 3);
    switch (random() % 6) {
      case 0: {
        Store::Hold hold(store);
        hold.add(digest_of(weights));
        hold.add(digest_of("shared by all"));
        Config config;
        config.model_format = "gguf";
        config.model_family = "of " + weights;
        hold.add(digest_of(to_text(config)));
        put_sample(store, name, weights);
        break;
      }
      case 1:
        static_cast<void>(store.copy(named(name), named(other)));
        break;
      case 2:
        static_cast<void>(store.remove(named(random() % 2 ? name : other)));
        break;
      case 3:
        store.prune(std::chrono::seconds(0));
        break;
      case 4:
        for (const StoredModel& model : store.list()) n_found += !model.manifest.layers.empty();
        break;
      default:
        if (const auto model = store.find(named(name))) ++n_found;
    }
  }
}

void check_and_empty(Store& store) {
  EXPECT_EQ(unsound_model(store), "");
  store.prune(std::chrono::seconds(0));
  EXPECT_EQ(unsound_model(store), "");
  for (const StoredModel& model : store.list()) ASSERT_TRUE(store.remove(model.name));
  EXPECT_TRUE(files_in(store.folder() + "/blobs").empty());
}

TEST(Store, IsThreadSafe) {
  const TestFolder folder;
  Store store(folder.path());
  std::atomic<int> n_found = 0;
  {
    std::vector<std::jthread> threads;
    for (unsigned t = 0; t < 4; ++t)
      threads.emplace_back([&, t] { use_at_random(store, t, n_found); });
  }
  EXPECT_GT(n_found, 0);
  check_and_empty(store);
}

// Two Store objects on one folder lock each other like two processes.
TEST(Store, ManyServersCanUseOneFolder) {
  const TestFolder folder;
  std::atomic<int> n_found = 0;
  {
    std::vector<std::jthread> threads;
    for (unsigned t = 0; t < 4; ++t) {
      threads.emplace_back([&, t] {
        Store store(folder.path());
        use_at_random(store, t, n_found);
      });
    }
  }
  EXPECT_GT(n_found, 0);
  Store store(folder.path());
  check_and_empty(store);
}

}  // namespace
}  // namespace billow::store
