//! Rewrites syntax that minijinja lacks to syntax that it has, before a template is compiled. Line
//! numbers do not change.
//!
//! - `{% generation %}` … `{% endgeneration %}` marks what an assistant wrote. It becomes a
//!   `{% with %}` block, which is a scope.
//! - `{% set NAMESPACE.x = VALUE %}` checks the value (keep.rs), because a namespace must not contain
//!   itself.
//! - `\UXXXXXXXX` in a string becomes the character.
//! - A slice with a step, `x[a:b:c]`, becomes a method call (slice.rs), because minijinja's slice
//!   differs from Python's.
//! - If a template changes lists in place, its list literals become mutable lists (mutable_list.rs).

use std::borrow::Cow;

/// Names that templates cannot use by accident.
pub const MAKE_LIST: &str = "__billow_list";
pub const KEEP: &str = "__billow_keep";
pub const SLICE: &str = "__billow_slice";

const LIST_METHODS: [&str; 4] = [".append(", ".extend(", ".insert(", ".pop("];
/// A bracket after one of these words begins a list. A bracket after any other name begins an
/// index.
const KEYWORDS: [&str; 14] = [
    "in",
    "not",
    "and",
    "or",
    "if",
    "elif",
    "else",
    "is",
    "set",
    "with",
    "for",
    "call",
    "filter",
    "recursive",
];

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Name,
    String,
    Number,
    Symbol(u8),
}

/// A piece of a tag: `source[start..end]`.
#[derive(Clone, Copy)]
struct Token {
    kind: Kind,
    start: usize,
    end: usize,
}

/// An insertion or replacement of `source[start..end]`.
struct Edit {
    start: usize,
    end: usize,
    text: Cow<'static, str>,
}

fn insert(at: usize, text: impl Into<Cow<'static, str>>) -> Edit {
    Edit {
        start: at,
        end: at,
        text: text.into(),
    }
}

/// Returns the template for minijinja.
pub fn adapt(source: &str) -> String {
    let source = source.replace("\r\n", "\n").replace('\r', "\n");
    let changes_lists = LIST_METHODS.iter().any(|method| source.contains(method));
    let mut edits = Vec::new();
    let mut at = 0;
    while let Some(open) = next_tag(&source, at) {
        let begin = &source[open..open + 2];
        if begin == "{#" {
            at = source[open + 2..]
                .find("#}")
                .map_or(source.len(), |n| open + 2 + n + 2);
            continue;
        }
        let (tokens, end) = tokens_of(&source, open + 2, if begin == "{%" { b'%' } else { b'}' });
        at = end;
        if begin == "{%" {
            if name_at(&source, &tokens, 0) == "raw" {
                at = end_of_raw(&source, end);
                continue;
            }
            edit_statement(&source, &tokens, &mut edits);
        }
        edit_strings(&source, &tokens, &mut edits);
        edit_brackets(&source, inner(&tokens), changes_lists, &mut edits);
    }
    apply(&source, edits)
}

/// Returns the offset of the next `{{`, `{%` or `{#`.
fn next_tag(source: &str, from: usize) -> Option<usize> {
    let pairs = source.as_bytes()[from..].windows(2);
    pairs
        .into_iter()
        .position(|pair| pair[0] == b'{' && b"{%#".contains(&pair[1]))
        .map(|n| from + n)
}

/// Returns the tokens from `at` to the end of the tag, and the offset after the tag. The tag ends
/// with `last` and `}` outside of brackets.
fn tokens_of(source: &str, mut at: usize, last: u8) -> (Vec<Token>, usize) {
    let bytes = source.as_bytes();
    let mut tokens = Vec::new();
    let mut depth = 0usize;
    while at < bytes.len() {
        let start = at;
        let c = bytes[at];
        if depth == 0 && c == last && bytes.get(at + 1) == Some(&b'}') {
            return (tokens, at + 2);
        }
        let kind = match c {
            b'"' | b'\'' => {
                at = end_of_string(bytes, at);
                Kind::String
            }
            _ if is_name_byte(c) => {
                at += bytes[at..].iter().take_while(|b| is_name_byte(**b)).count();
                if c.is_ascii_digit() {
                    Kind::Number
                } else {
                    Kind::Name
                }
            }
            _ => {
                at += 1;
                match c {
                    b'(' | b'[' | b'{' => depth += 1,
                    b')' | b']' | b'}' => depth = depth.saturating_sub(1),
                    _ => {}
                }
                Kind::Symbol(c)
            }
        };
        if !c.is_ascii_whitespace() {
            tokens.push(Token {
                kind,
                start,
                end: at,
            });
        }
    }
    (tokens, bytes.len())
}

fn is_name_byte(b: u8) -> bool {
    b.is_ascii_alphanumeric() || b == b'_' || b >= 0x80
}

fn end_of_string(bytes: &[u8], open: usize) -> usize {
    let mut at = open + 1;
    while at < bytes.len() && bytes[at] != bytes[open] {
        at += if bytes[at] == b'\\' { 2 } else { 1 };
    }
    (at + 1).min(bytes.len())
}

/// Returns the offset after the next `{% endraw %}`.
fn end_of_raw(source: &str, mut at: usize) -> usize {
    while let Some(n) = source[at..].find("{%") {
        at += n + 2;
        let rest = source[at..].trim_start_matches(['-', '+']).trim_start();
        if let Some(rest) = rest.strip_prefix("endraw") {
            let rest = rest.trim_start().trim_start_matches(['-', '+']);
            if rest.starts_with("%}") {
                return source.len() - rest.len() + 2;
            }
        }
    }
    source.len()
}

/// Returns the tokens of a statement without its white space control.
fn inner(tokens: &[Token]) -> &[Token] {
    let is_control = |token: &Token| matches!(token.kind, Kind::Symbol(b'-' | b'+'));
    let tokens = match tokens {
        [first, rest @ ..] if is_control(first) => rest,
        all => all,
    };
    match tokens {
        [rest @ .., last] if is_control(last) => rest,
        all => all,
    }
}

fn name_at<'a>(source: &'a str, tokens: &[Token], i: usize) -> &'a str {
    match inner(tokens).get(i) {
        Some(token) if token.kind == Kind::Name => &source[token.start..token.end],
        _ => "",
    }
}

fn edit_statement(source: &str, tokens: &[Token], edits: &mut Vec<Edit>) {
    let tokens = inner(tokens);
    let Some(first) = tokens.first() else { return };
    let mut rename = |name: &'static str| {
        edits.push(Edit {
            start: first.start,
            end: first.end,
            text: name.into(),
        })
    };
    match &source[first.start..first.end] {
        "generation" => rename("with"),
        "endgeneration" => rename("endwith"),
        "set" => edit_set(tokens, edits),
        _ => {}
    }
}

/// Turns `set a.b = x` into `set a.b = KEEP((x))`.
fn edit_set(tokens: &[Token], edits: &mut Vec<Edit>) {
    let is_symbol = |token: &Token, symbol| token.kind == Kind::Symbol(symbol);
    let Some(equals) = tokens.iter().position(|token| is_symbol(token, b'=')) else {
        return;
    };
    let has_attribute = tokens[..equals].iter().any(|token| is_symbol(token, b'.'));
    if has_attribute && equals + 1 < tokens.len() {
        edits.push(insert(tokens[equals + 1].start, format!("{KEEP}((")));
        edits.push(insert(tokens[tokens.len() - 1].end, "))"));
    }
}

/// Turns `\UXXXXXXXX` in a string into the character itself.
fn edit_strings(source: &str, tokens: &[Token], edits: &mut Vec<Edit>) {
    for token in tokens.iter().filter(|token| token.kind == Kind::String) {
        let mut at = token.start;
        while let Some(n) = source[at..token.end].find('\\') {
            at += n;
            let digits = source
                .get(at + 2..at + 10)
                .filter(|_| source[at + 1..].starts_with('U'));
            let code = digits.and_then(|digits| u32::from_str_radix(digits, 16).ok());
            match code.and_then(char::from_u32) {
                Some(c) if !c.is_control() && !"'\"\\".contains(c) && at + 10 < token.end => {
                    edits.push(Edit {
                        start: at,
                        end: at + 10,
                        text: c.to_string().into(),
                    });
                    at += 10;
                }
                _ => at += 2,
            }
            if at >= token.end || !source.is_char_boundary(at) {
                break;
            }
        }
    }
}

/// An open bracket: its offset, whether it begins an index, and the colons directly in it.
struct Bracket {
    at: usize,
    is_index: bool,
    colons: Vec<usize>,
}

fn edit_brackets(source: &str, tokens: &[Token], changes_lists: bool, edits: &mut Vec<Edit>) {
    let mut open: Vec<Bracket> = Vec::new();
    for (i, token) in tokens.iter().enumerate() {
        match token.kind {
            Kind::Symbol(symbol @ (b'[' | b'(' | b'{')) => {
                let is_index = symbol == b'[' && i > 0 && ends_value(source, &tokens[i - 1]);
                open.push(Bracket {
                    at: i,
                    is_index,
                    colons: Vec::new(),
                });
            }
            Kind::Symbol(b':') => {
                if let Some(bracket) = open.last_mut() {
                    bracket.colons.push(i);
                }
            }
            Kind::Symbol(symbol @ (b']' | b')' | b'}')) => {
                let Some(bracket) = open.pop() else { continue };
                if bracket.is_index && bracket.colons.len() == 2 {
                    edit_slice(tokens, &bracket, i, edits);
                } else if symbol == b']' && !bracket.is_index && changes_lists {
                    edits.push(insert(tokens[bracket.at].start, format!("{MAKE_LIST}(")));
                    edits.push(insert(token.end, ")"));
                }
            }
            _ => {}
        }
    }
}

/// Turns `[a:b:c]` into `.SLICE(a,b,c)`. Missing parts become none.
fn edit_slice(tokens: &[Token], bracket: &Bracket, close: usize, edits: &mut Vec<Edit>) {
    let mut replace = |i: usize, text: String| {
        edits.push(Edit {
            start: tokens[i].start,
            end: tokens[i].end,
            text: text.into(),
        })
    };
    let places = [bracket.at, bracket.colons[0], bracket.colons[1], close];
    let signs = [format!(".{SLICE}("), ",".into(), ",".into(), ")".into()];
    for (n, (place, sign)) in places.into_iter().zip(signs).enumerate() {
        let is_empty = n < 3 && places[n + 1] == place + 1;
        replace(place, if is_empty { sign + "none" } else { sign });
    }
}

/// Returns whether a bracket after `token` begins an index.
fn ends_value(source: &str, token: &Token) -> bool {
    match token.kind {
        Kind::Name => !KEYWORDS.contains(&&source[token.start..token.end]),
        Kind::String | Kind::Number => true,
        Kind::Symbol(symbol) => b")]}".contains(&symbol),
    }
}

fn apply(source: &str, mut edits: Vec<Edit>) -> String {
    edits.sort_by_key(|edit| edit.start);
    let mut result = String::with_capacity(source.len() + 16 * edits.len());
    let mut at = 0;
    for edit in edits {
        result.push_str(&source[at..edit.start]);
        result.push_str(&edit.text);
        at = edit.end;
    }
    result.push_str(&source[at..]);
    result
}
