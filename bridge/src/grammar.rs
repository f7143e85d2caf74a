//! Turns all kinds of grammars into the two that llguidance compiles: JSON Schema and Lark.

use llguidance::api::{GrammarInit, ParserLimits, TopLevelGrammar};
use llguidance::{Logger, Matcher, ParserFactory, TokenParser};

use crate::session::{Failure, Status};
use crate::vocabulary::{self, Vocabulary};
use crate::{gbnf, json_schema};

/// Max size of a grammar's text.
const MAX_BYTES: usize = 1 << 20;
/// Max depth of nested parentheses in a regular expression or a Lark grammar.
const MAX_DEPTH: usize = 200;

/// The values are those of billow_bridge.h.
#[derive(Clone, Copy, PartialEq)]
pub enum Kind {
    JsonObject = 0,
    JsonSchema = 1,
    Regex = 2,
    Lark = 3,
    Gbnf = 4,
}

impl Kind {
    pub fn of(number: i32) -> Option<Kind> {
        use Kind::*;
        [JsonObject, JsonSchema, Regex, Lark, Gbnf]
            .into_iter()
            .find(|kind| *kind as i32 == number)
    }
}

/// Returns the limits for compiling a grammar and for each token.
fn parser_limits() -> ParserLimits {
    ParserLimits {
        max_items_in_row: 2_000,
        initial_lexer_fuel: 1_000_000,
        step_lexer_fuel: 200_000,
        step_max_items: 50_000,
        max_lexer_states: 50_000,
        max_grammar_size: 500_000,
        precompute_large_lexemes: true,
        verbose_errors: false,
    }
}

fn top_level(kind: Kind, text: &[u8]) -> Result<TopLevelGrammar, Failure> {
    if text.len() > MAX_BYTES {
        let message = format!("{} bytes, more than {MAX_BYTES}", text.len());
        return Err(Failure::new(Status::TooLarge, message));
    }
    let text = std::str::from_utf8(text)
        .map_err(|_| Failure::new(Status::Invalid, "the grammar is not UTF-8"))?;
    let grammar = match kind {
        Kind::JsonObject => TopLevelGrammar::from_json_schema(json_schema::any_object()),
        Kind::JsonSchema => TopLevelGrammar::from_json_schema(json_schema::prepared(text)?),
        Kind::Regex => {
            check_depth(text)?;
            TopLevelGrammar::from_regex(without_anchors(text))
        }
        Kind::Lark => {
            check_depth(text)?;
            check_tokens(text)?;
            TopLevelGrammar::from_lark(text.to_string())
        }
        Kind::Gbnf => TopLevelGrammar::from_lark(gbnf::to_lark(text)?),
    };
    Ok(grammar)
}

/// Compiles a grammar. The matcher is at its beginning.
pub fn compile(vocabulary: &Vocabulary, kind: Kind, text: &[u8]) -> Result<Matcher, Failure> {
    let grammar = top_level(kind, text)?;
    let matcher = Matcher::new(create(vocabulary.factory(), grammar));
    let Some(error) = matcher.get_error() else {
        return Ok(matcher);
    };
    let mut failure = failure_of(&error);
    // For these kinds, llguidance counts the lines of another text.
    if kind == Kind::Regex || kind == Kind::Gbnf {
        failure.message = without_place(&failure.message).to_string();
    }
    Err(failure)
}

/// Removes the prefix "at 1(8): ".
fn without_place(message: &str) -> &str {
    match message
        .strip_prefix("at ")
        .and_then(|rest| rest.split_once("): "))
    {
        Some((_, what)) => what
            .split_once(" (in regex): ")
            .map_or(what, |(_, reason)| reason),
        None => message,
    }
}

fn create(factory: &ParserFactory, grammar: TopLevelGrammar) -> anyhow::Result<TokenParser> {
    factory.create_parser_from_init_ext(
        GrammarInit::Serialized(grammar),
        Logger::new(0, 0),
        vocabulary::capabilities(),
        parser_limits(),
    )
}

/// Converts an error of llguidance to one line. Replaces messages about llguidance's own options.
pub fn failure_of(error: &str) -> Failure {
    let text = error.split("<state>").next().unwrap_or(error);
    let text = text.split("<non-verbose/>").next().unwrap_or(text).trim();
    if let Some(panic) = text.strip_prefix("panic: ") {
        let message = format!("the grammar engine failed: {panic}");
        return Failure::new(Status::Invalid, message);
    }
    if text.contains("oneOf constraints are not supported") {
        return Failure::new(
            Status::Unsupported,
            "JSON Schema keyword \"oneOf\" is supported only where no two of its schemas can be \
             valid at the same time; use \"anyOf\"",
        );
    }
    if text == "NoExtensionBias" {
        return Failure::new(Status::Invalid, "the grammar allows no further token");
    }
    let is_too_large = [
        "too big",
        "too complex",
        "too large",
        "limit",
        "TooComplex",
        "fuel",
    ]
    .iter()
    .any(|word| text.contains(word));
    let status = if is_too_large {
        Status::TooLarge
    } else {
        Status::Invalid
    };
    Failure::new(status, without_pictures(text))
}

/// Removes the lines that point to an error in a text, because they are useless in one line.
fn without_pictures(text: &str) -> String {
    const REGEX_ERROR: &str = "regex parse error:";
    let is_picture = |line: &str| {
        let line = line.trim_start();
        let after_number = line.trim_start_matches(|c: char| c.is_ascii_digit());
        let is_source = after_number.len() < line.len() && after_number.starts_with(" |");
        is_source || (!line.is_empty() && line.trim_end().chars().all(|c| c == '^' || c == ' '))
    };
    let mut lines = Vec::new();
    let mut shows_regex = false;
    for line in text.lines().filter(|line| !is_picture(line)) {
        if let Some(before) = line.strip_suffix(REGEX_ERROR) {
            lines.push(before.trim());
            shows_regex = true;
        } else if let Some(what) = line.strip_prefix("error: ") {
            lines.push(what);
            shows_regex = false;
        } else if !shows_regex {
            lines.push(line.trim());
        }
    }
    lines.retain(|line| !line.is_empty());
    lines.join(" ")
}

/// Removes the anchors around a regular expression. They have no effect, because it matches the
/// whole text.
fn without_anchors(text: &str) -> &str {
    let text = text.strip_prefix('^').unwrap_or(text);
    match text.strip_suffix('$') {
        Some(rest) if rest.chars().rev().take_while(|c| *c == '\\').count() % 2 == 0 => rest,
        _ => text,
    }
}

/// Limits the nesting, because compiling and matching are recursive.
fn check_depth(text: &str) -> Result<(), Failure> {
    let mut depth = 0usize;
    let mut is_escaped = false;
    for c in text.chars() {
        match c {
            _ if is_escaped => {}
            '(' | '[' => depth += 1,
            ')' | ']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        is_escaped = c == '\\' && !is_escaped;
        if depth > MAX_DEPTH {
            let message = format!("parentheses nested deeper than {MAX_DEPTH}");
            return Err(Failure::new(Status::TooLarge, message));
        }
    }
    Ok(())
}

/// Returns an error for tokens of a vocabulary, "<...>". Tokens with text need no name, and no
/// grammar allows the others. Ignores strings, regular expressions and comments.
fn check_tokens(text: &str) -> Result<(), Failure> {
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        let is_comment = c == '#' || (c == '/' && chars.peek() == Some(&'/'));
        match c {
            '<' => {
                let message = "a grammar cannot have tokens of a vocabulary (<...>)";
                return Err(Failure::new(Status::Unsupported, message));
            }
            _ if is_comment => while chars.next_if(|c| *c != '\n').is_some() {},
            '"' | '/' => {
                while let Some(inner) = chars.next().filter(|inner| *inner != c) {
                    if inner == '\\' {
                        chars.next();
                    }
                }
            }
            _ => {}
        }
    }
    Ok(())
}
