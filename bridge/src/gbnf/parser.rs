//! Parses the text of a GBNF grammar into rules.

use std::collections::HashMap;

use super::char_set::CharSet;

/// Max depth of nested parentheses, because parsing is recursive.
const MAX_DEPTH: usize = 100;
/// Max repetitions of a repetition, because parsing is recursive.
const MAX_MARKS: usize = 8;
const MAX_RULES: usize = 5_000;
/// Max count of a repetition.
const MAX_REPEATS: u32 = 2_000;

#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub enum Node {
    /// One character.
    Class(CharSet),
    Sequence(Vec<Node>),
    Choice(Vec<Node>),
    /// Min and max count; None: no limit.
    Repeat(Box<Node>, u32, Option<u32>),
    /// Index of a rule.
    Rule(usize),
}

impl Node {
    pub fn empty() -> Node {
        Node::Sequence(Vec::new())
    }
}

#[derive(Debug, Default)]
pub struct Grammar {
    /// bodies[i] is the body of rule i.
    pub bodies: Vec<Node>,
    pub root: usize,
}

pub fn parse(text: &str) -> Result<Grammar, String> {
    let mut parser = Parser {
        chars: text.chars().collect(),
        at: 0,
        depth: 0,
        indices: HashMap::new(),
        bodies: Vec::new(),
    };
    parser.rules()?;
    let Parser {
        indices, bodies, ..
    } = parser;
    let mut names = vec![String::new(); indices.len()];
    for (name, index) in indices {
        names[index] = name;
    }
    let mut defined = Vec::new();
    for (name, body) in names.iter().zip(bodies) {
        defined.push(body.ok_or_else(|| format!("rule \"{name}\" is not defined"))?);
    }
    let root = names.iter().position(|name| name == "root");
    let root = root.ok_or_else(|| "there is no rule \"root\"".to_string())?;
    Ok(Grammar {
        bodies: defined,
        root,
    })
}

struct Parser {
    chars: Vec<char>,
    at: usize,
    depth: usize,
    indices: HashMap<String, usize>,
    bodies: Vec<Option<Node>>,
}

impl Parser {
    fn peek(&self) -> Option<char> {
        self.chars.get(self.at).copied()
    }

    fn take(&mut self, wanted: char) -> bool {
        let found = self.peek() == Some(wanted);
        self.at += usize::from(found);
        found
    }

    fn takes(&mut self, wanted: &str) -> bool {
        let found = wanted
            .chars()
            .enumerate()
            .all(|(i, c)| self.chars.get(self.at + i) == Some(&c));
        if found {
            self.at += wanted.chars().count();
        }
        found
    }

    fn error<T>(&self, what: impl std::fmt::Display) -> Result<T, String> {
        let line = self.chars[..self.at.min(self.chars.len())]
            .iter()
            .filter(|c| **c == '\n')
            .count();
        Err(format!("line {}: {what}", line + 1))
    }

    /// Skips blanks and comments. Skips line breaks only where the rule must continue on the next
    /// line.
    fn skip(&mut self, may_break: bool) {
        while let Some(c) = self.peek() {
            if c == '#' {
                while self.peek().is_some_and(|c| c != '\n') {
                    self.at += 1;
                }
            } else if c == ' ' || c == '\t' || (may_break && (c == '\n' || c == '\r')) {
                self.at += 1;
            } else {
                break;
            }
        }
    }

    /// Returns whether the next line with content continues the rule with an alternative.
    fn next_line_is_alternative(&mut self) -> bool {
        let before = self.at;
        self.skip(true);
        let goes_on = self.peek() == Some('|');
        if !goes_on {
            self.at = before;
        }
        goes_on
    }

    fn rules(&mut self) -> Result<(), String> {
        self.skip(true);
        while self.peek().is_some() {
            let name = self.name()?;
            self.skip(false);
            if !self.takes("::=") {
                return self.error(format!("rule \"{name}\" has no \"::=\""));
            }
            self.skip(true);
            let body = self.choice(false)?;
            if !matches!(self.peek(), None | Some('\n' | '\r')) {
                return self.error(format!("unexpected {:?}", self.chars[self.at]));
            }
            let index = self.index_of(&name);
            if self.bodies.len() > MAX_RULES {
                return self.error(format!("more than {MAX_RULES} rules"));
            }
            if self.bodies[index].is_some() {
                return self.error(format!("rule \"{name}\" is defined twice"));
            }
            self.bodies[index] = Some(body);
            self.skip(true);
        }
        Ok(())
    }

    fn index_of(&mut self, name: &str) -> usize {
        let next = self.bodies.len();
        let index = *self.indices.entry(name.to_string()).or_insert(next);
        if index == next {
            self.bodies.push(None);
        }
        index
    }

    fn name(&mut self) -> Result<String, String> {
        let first = self.at;
        let is_word = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        while self.peek().is_some_and(is_word) {
            self.at += 1;
        }
        if self.at == first {
            return self.error("a rule's name is missing");
        }
        Ok(self.chars[first..self.at].iter().collect())
    }

    fn choice(&mut self, is_nested: bool) -> Result<Node, String> {
        let mut options = vec![self.sequence(is_nested)?];
        while self.peek() == Some('|') || (!is_nested && self.next_line_is_alternative()) {
            self.at += 1;
            self.skip(true);
            options.push(self.sequence(is_nested)?);
        }
        Ok(if options.len() == 1 {
            options.remove(0)
        } else {
            Node::Choice(options)
        })
    }

    fn sequence(&mut self, is_nested: bool) -> Result<Node, String> {
        let mut items = Vec::new();
        while let Some(item) = self.item()? {
            self.skip(is_nested);
            items.push(self.repeated(item, is_nested)?);
        }
        Ok(Node::Sequence(items))
    }

    /// Returns None at the end of the sequence.
    fn item(&mut self) -> Result<Option<Node>, String> {
        let Some(c) = self.peek() else {
            return Ok(None);
        };
        let node = match c {
            '"' => self.literal()?,
            '[' => self.class()?,
            '.' => {
                self.at += 1;
                Node::Class(CharSet::all())
            }
            '(' => self.group()?,
            '<' | '!' => return self.error("a grammar cannot have tokens of a vocabulary (<...>)"),
            c if c.is_ascii_alphanumeric() || c == '-' || c == '_' => {
                let name = self.name()?;
                Node::Rule(self.index_of(&name))
            }
            _ => return Ok(None),
        };
        Ok(Some(node))
    }

    fn group(&mut self) -> Result<Node, String> {
        self.at += 1;
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return self.error(format!("parentheses nested deeper than {MAX_DEPTH}"));
        }
        self.skip(true);
        let inside = self.choice(true)?;
        self.depth -= 1;
        if !self.take(')') {
            return self.error("a \")\" is missing");
        }
        Ok(inside)
    }

    fn repeated(&mut self, mut item: Node, is_nested: bool) -> Result<Node, String> {
        for n_marks in 0.. {
            let (min, max) = match self.peek() {
                Some('*') => (0, None),
                Some('+') => (1, None),
                Some('?') => (0, Some(1)),
                Some('{') => self.counts()?,
                _ => break,
            };
            if n_marks == MAX_MARKS {
                return self.error(format!("an item has more than {MAX_MARKS} repetitions"));
            }
            self.at += 1;
            item = Node::Repeat(Box::new(item), min, max);
            self.skip(is_nested);
        }
        Ok(item)
    }

    /// Parses "{2}", "{2,}", "{,3}" or "{2,3}". Stops before the last character.
    fn counts(&mut self) -> Result<(u32, Option<u32>), String> {
        self.at += 1;
        self.skip(false);
        let min = self.number()?;
        self.skip(false);
        let has_comma = self.take(',');
        self.skip(false);
        let max = if has_comma { self.number()? } else { min };
        self.skip(false);
        if self.peek() != Some('}') || (!has_comma && min.is_none()) {
            return self.error("a repetition must be like {2}, {2,} or {2,3}");
        }
        let min = min.unwrap_or(0);
        if max.is_some_and(|max| max < min) {
            return self.error("the min of a repetition is above its max");
        }
        if min.max(max.unwrap_or(0)) > MAX_REPEATS {
            return self.error(format!("a repetition counts to more than {MAX_REPEATS}"));
        }
        Ok((min, max))
    }

    fn number(&mut self) -> Result<Option<u32>, String> {
        let first = self.at;
        while self.peek().is_some_and(|c| c.is_ascii_digit()) {
            self.at += 1;
        }
        if first == self.at {
            return Ok(None);
        }
        let digits: String = self.chars[first..self.at].iter().collect();
        match digits.parse() {
            Ok(number) => Ok(Some(number)),
            Err(_) => self.error("a number is too large"),
        }
    }

    fn literal(&mut self) -> Result<Node, String> {
        self.at += 1;
        let mut items = Vec::new();
        while self.peek() != Some('"') {
            let c = self.character("a string")?;
            items.push(Node::Class(CharSet::of(c)));
        }
        self.at += 1;
        Ok(Node::Sequence(items))
    }

    fn class(&mut self) -> Result<Node, String> {
        self.at += 1;
        let is_negated = self.take('^');
        let mut ranges = Vec::new();
        while self.peek() != Some(']') {
            let first = self.character("a class")?;
            let is_range = self.peek() == Some('-') && self.chars.get(self.at + 1) != Some(&']');
            let last = if is_range {
                self.at += 1;
                self.character("a class")?
            } else {
                first
            };
            if last < first {
                return self.error("a range of characters is reversed");
            }
            ranges.push((first, last));
        }
        self.at += 1;
        let set = CharSet::new(ranges);
        Ok(Node::Class(if is_negated { set.complement() } else { set }))
    }

    /// Returns the next character of a string or class. Resolves escapes.
    fn character(&mut self, place: &str) -> Result<u32, String> {
        let Some(c) = self.peek().filter(|c| *c != '\n' && *c != '\r') else {
            return self.error(format!("{place} has no end"));
        };
        self.at += 1;
        if c != '\\' {
            return Ok(u32::from(c));
        }
        let Some(escaped) = self.peek().filter(|c| *c != '\n' && *c != '\r') else {
            return self.error(format!("{place} has no end"));
        };
        self.at += 1;
        match escaped {
            'n' => Ok(u32::from('\n')),
            'r' => Ok(u32::from('\r')),
            't' => Ok(u32::from('\t')),
            'x' => self.hexadecimal(2),
            'u' => self.hexadecimal(4),
            'U' => self.hexadecimal(8),
            '\\' | '"' | '[' | ']' | '-' | '^' | '/' => Ok(u32::from(escaped)),
            _ => self.error(format!("unknown escape \\{escaped}")),
        }
    }

    fn hexadecimal(&mut self, n_digits: usize) -> Result<u32, String> {
        let end = (self.at + n_digits).min(self.chars.len());
        let digits: String = self.chars[self.at..end].iter().collect();
        let is_whole = digits.len() == n_digits && digits.chars().all(|c| c.is_ascii_hexdigit());
        match u32::from_str_radix(&digits, 16) {
            Ok(c) if is_whole && char::from_u32(c).is_some() => {
                self.at = end;
                Ok(c)
            }
            _ => self.error("an escape is not a character"),
        }
    }
}
