#include "store/manifest.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "base/error.h"
#include "base/json.h"

namespace billow::store {
namespace {

const std::string kDigest = "sha256:" + std::string(64, 'a');

// A manifest in Ollama's form.
Json sample() {
  return {{"schemaVersion", 2},
          {"mediaType", kManifestType},
          {"config", {{"mediaType", kConfigType}, {"digest", kDigest}, {"size", 485}}},
          {"layers", Json::array({{{"mediaType", kModelLayer},
                                   {"digest", "sha256:" + std::string(64, 'b')},
                                   {"size", 1321082688},
                                   {"from", "/models/x"}},
                                  {{"mediaType", "application/vnd.ollama.image.of-the-future"},
                                   {"digest", "sha256:" + std::string(64, 'c')},
                                   {"size", 0},
                                   {"name", "model.norm"}}})}};
}

std::string refusal(std::string_view text) {
  try {
    parse_manifest(text, "/store/manifest");
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidInput);
    return error.what();
  }
  return "";
}

TEST(Manifest, RoundTripKeepsAllBytes) {
  const std::string text = sample().dump();
  const Manifest manifest = parse_manifest(text, "m");
  ASSERT_EQ(manifest.layers.size(), 2u);
  EXPECT_EQ(manifest.layers[0].media_type, kModelLayer);
  EXPECT_EQ(manifest.layers[0].size_bytes, 1321082688u);
  EXPECT_EQ(manifest.layers[0].from, "/models/x");
  EXPECT_EQ(manifest.layers[1].name, "model.norm");
  EXPECT_EQ(manifest.total_bytes(), 1321082688u + 485);
  EXPECT_EQ(manifest.digests().size(), 3u);
  EXPECT_EQ(to_text(manifest), text);
}

TEST(Manifest, CanHaveNoLayers) {
  for (const Json& none : {Json(), Json::array()}) {
    Json json = sample();
    json["layers"] = none;
    EXPECT_TRUE(parse_manifest(json.dump(), "m").layers.empty());
  }
  Json json = sample();
  json.erase("layers");
  EXPECT_TRUE(parse_manifest(json.dump(), "m").layers.empty());
}

TEST(Manifest, ErrorOfABrokenManifestNamesTheFile) {
  const std::function<void(Json&)> damages[] = {
      [](Json& json) { json["schemaVersion"] = 1; },
      [](Json& json) { json.erase("schemaVersion"); },
      [](Json& json) { json.erase("config"); },
      [](Json& json) { json["config"] = "x"; },
      [](Json& json) { json["layers"] = 3; },
      [](Json& json) { json["layers"][0] = "x"; },
      [](Json& json) { json["layers"][0]["digest"] = "sha256:../../../etc/passwd"; },
      [](Json& json) { json["layers"][0].erase("digest"); },
      [](Json& json) { json["layers"][0]["size"] = -1; },
      [](Json& json) { json["layers"][0]["size"] = 1.5; },
      [](Json& json) { json["layers"][0]["size"] = "1"; },
      [](Json& json) { json["layers"][0]["size"] = uint64_t{1} << 63; },
      [](Json& json) {
        json["layers"][0]["size"] = (uint64_t{1} << 63) - 1;
      },  // the total is too large
      [](Json& json) { json["layers"][0]["mediaType"] = 7; },
      [](Json& json) { json = Json::array(); },
      [](Json& json) { json = Json(); },
  };
  for (const auto& damage : damages) {
    Json json = sample();
    damage(json);
    EXPECT_TRUE(refusal(json.dump()).starts_with("/store/manifest: ")) << json.dump();
  }
  const std::string text = sample().dump();
  for (size_t n = 0; n < text.size(); ++n) {
    EXPECT_NE(refusal(text.substr(0, n)), "") << n;
  }
  EXPECT_NE(refusal(std::string(100000, '[')), "");
  EXPECT_NE(refusal(std::string(100000, '[') + std::string(100000, ']')), "");
  EXPECT_NE(refusal("\xff"), "");
}

TEST(Config, RoundTripKeepsAllBytes) {
  const std::string text =
      R"({"model_format":"gguf","model_family":"llama","model_families":["llama","clip"],)"
      R"("model_type":"1.2B","file_type":"Q8_0","renderer":"r","parser":"p","requires":"0.14.0",)"
      R"("remote_host":"h","remote_model":"m","base_name":"b","capabilities":["completion"],)"
      R"("context_length":131072,"embedding_length":2048,"draft":{"architecture":"x"},)"
      R"("architecture":"amd64","os":"linux","rootfs":{"type":"layers","diff_ids":["sha256:1"]}})";
  const Config config = parse_config(text, "c");
  EXPECT_EQ(config.requires_version, "0.14.0");
  EXPECT_EQ(config.context_length, 131072u);
  EXPECT_EQ(to_text(config), text);
}

TEST(Config, AnOldConfigLacksManyFields) {
  const Config config =
      parse_config(R"({"model_format":"gguf","model_families":null,"new":[1]})", "c");
  EXPECT_EQ(config.model_format, "gguf");
  EXPECT_TRUE(config.model_families.empty());
  EXPECT_EQ(to_text(config),
            R"({"model_format":"gguf","model_family":"","model_families":null,"model_type":"",)"
            R"("file_type":"","architecture":"amd64","os":"linux",)"
            R"("rootfs":{"type":"layers","diff_ids":[]}})");
}

TEST(Config, RefusesFieldsOfTheWrongType) {
  for (const char* text :
       {R"({"model_format":1})", R"({"model_families":"llama"})", R"({"model_families":[1]})",
        R"({"context_length":-1})", R"({"context_length":"x"})", R"([])", R"(1)", ""}) {
    EXPECT_THROW(parse_config(text, "c"), Error) << text;
  }
}

TEST(Config, TextThatIsNotUtf8IsWrittenAsReplacement) {
  Config config;
  config.model_family = "a\xff";
  EXPECT_EQ(parse_config(to_text(config), "c").model_family, "a\xef\xbf\xbd");
}

TEST(Manifest, RefusesTextThatTakesLongToParse) {
  const auto why = [](const std::string& text) -> std::string {
    try {
      parse_manifest(text, "m");
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  const auto object_of = [](int n_members) {
    std::string text = R"({"schemaVersion":1)";
    for (int i = 1; i < n_members; ++i) text += ",\"" + std::to_string(i) + "\":\",{[\\\"\"";
    return text + "}";
  };
  EXPECT_EQ(why(object_of(4096)), "m: not a manifest of schema version 2");
  EXPECT_EQ(why(object_of(4097)), "m: a JSON object of more than 4096 members");
  EXPECT_EQ(why(std::string(100, '[')), "m: malformed JSON");
  EXPECT_EQ(why(std::string(101, '[')), "m: JSON nested too deep");
  EXPECT_EQ(why("]}]}{"), "m: malformed JSON");
  std::string many = R"({"schemaVersion":1,"layers":[{})";
  for (int i = 0; i < 500'000; ++i) many += ",{}";
  EXPECT_EQ(why(many + "]}"), "m: not a manifest of schema version 2");
}

}  // namespace
}  // namespace billow::store
