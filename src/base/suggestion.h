// Finds words that are similar to a word that a user typed. Pure functions; any thread.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace billow {

// Returns the number of bytes to insert, delete, replace or swap with their neighbour to get from
// `a` to `b` (the optimal string alignment distance).
size_t edit_distance(std::string_view a, std::string_view b);

// Returns up to 3 of `words` that are similar to `word`, the most similar ones first. Upper and
// lower case are the same. Words of less than 3 or more than 64 bytes get none. A word is similar
// if a third of its bytes are wrong at most, or if `word` is its beginning.
std::vector<std::string> similar_words(std::string_view word, std::span<const std::string> words);

// Returns "; did you mean 'a' or 'b'?", or an empty text if no word is similar.
std::string did_you_mean(std::string_view word, std::span<const std::string> words);

}  // namespace billow
