// What the tests of recorded conversions share: numbers, shapes, keys and vocabularies. Not
// thread-safe.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/json.h"
#include "gguf/file.h"

namespace billow::convert {

// Equals digest() of record_golden.py.
std::string digest(const std::vector<float>& values);
// Returns the numbers of a tensor as the recording has them: floats of any width, or bytes.
std::vector<float> numbers_of(const gguf::TensorInfo& tensor);
Json shape_of(const gguf::TensorInfo& tensor);
// Returns a recorded number. Infinite numbers are texts.
double number_of(const Json& value);
bool is_near(double a, double b);
// Adds a failure if a key has another value or type than recorded.
void compare_value(const std::string& key, const Json& expected, const gguf::Value& found);
// Returns a tokenizer.json with one token per row. The texts of the tokens do not matter here.
Json tokenizer_of(const Json& config);
// Returns the name of a recording as a name of a test.
std::string test_name(const testing::TestParamInfo<std::string>& about);

}  // namespace billow::convert
