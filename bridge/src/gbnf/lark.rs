//! Writes a grammar of terminals as the text of a Lark grammar.

use std::collections::HashMap;
use std::fmt::Write;

use super::char_set::CharSet;
use super::parser::{Grammar, Node};
use super::terminals::{Cut, Part};

pub fn written(grammar: &Grammar, cut: &Cut) -> String {
    let mut writer = Writer {
        grammar,
        cut,
        numbers: HashMap::new(),
        definitions: String::new(),
        is_defined: vec![false; grammar.bodies.len()],
    };
    let mut text = format!("start: {}\n", writer.part(&cut.root));
    for (rule, body) in cut.bodies.iter().enumerate() {
        if let Some(body) = body {
            let _ = writeln!(text, "r{rule}: {}", writer.part(body));
        }
    }
    text + &writer.definitions
}

struct Writer<'a> {
    grammar: &'a Grammar,
    cut: &'a Cut,
    /// Terminals that are written already.
    numbers: HashMap<Node, usize>,
    definitions: String,
    /// Rules that terminals mention.
    is_defined: Vec<bool>,
}

impl Writer<'_> {
    fn part(&mut self, part: &Part) -> String {
        match part {
            Part::Terminal(index) => self.terminal(&self.cut.terminals[*index]),
            Part::Sequence(items) if items.is_empty() => "\"\"".into(),
            Part::Sequence(items) => {
                let items: Vec<String> = items.iter().map(|item| self.part(item)).collect();
                items.join(" ")
            }
            Part::Choice(options) => {
                let options: Vec<String> = options.iter().map(|o| self.part(o)).collect();
                format!("({})", options.join(" | "))
            }
            Part::Repeat(item, min, max) => {
                format!("({}){}", self.part(item), repeats(*min, *max))
            }
            Part::Rule(rule) => format!("r{rule}"),
        }
    }

    fn terminal(&mut self, node: &Node) -> String {
        let next = self.numbers.len();
        let number = *self.numbers.entry(node.clone()).or_insert(next);
        if number == next {
            let expression = self.expression(node);
            let _ = writeln!(self.definitions, "T{number}: {expression}");
        }
        format!("T{number}")
    }

    fn expression(&mut self, node: &Node) -> String {
        match node {
            Node::Class(set) => format!("/{}/", class(set)),
            Node::Sequence(items) if items.is_empty() => "\"\"".into(),
            Node::Sequence(items) => {
                let items: Vec<String> = items.iter().map(|item| self.expression(item)).collect();
                items.join(" ").replace("/ /", "")
            }
            Node::Choice(options) => {
                let options: Vec<String> = options.iter().map(|o| self.expression(o)).collect();
                format!("({})", options.join(" | "))
            }
            Node::Repeat(item, min, max) => {
                format!("({}){}", self.expression(item), repeats(*min, *max))
            }
            Node::Rule(rule) => {
                if !std::mem::replace(&mut self.is_defined[*rule], true) {
                    let body = self.grammar.bodies[*rule].clone();
                    let expression = self.expression(&body);
                    let _ = writeln!(self.definitions, "R{rule}: {expression}");
                }
                format!("R{rule}")
            }
        }
    }
}

fn repeats(min: u32, max: Option<u32>) -> String {
    match (min, max) {
        (0, None) => "*".into(),
        (1, None) => "+".into(),
        (0, Some(1)) => "?".into(),
        (min, None) => format!("{{{min},}}"),
        (min, Some(max)) => format!("{{{min},{max}}}"),
    }
}

/// Writes the set as a regular expression.
fn class(set: &CharSet) -> String {
    let is_plain = |c: u32| char::from_u32(c).is_some_and(|c| c.is_ascii_alphanumeric());
    let mut text = String::new();
    let mut write = |first: u32, last: u32| {
        let _ = match (first == last, is_plain(first)) {
            (true, true) => write!(text, "{}", char::from_u32(first).unwrap_or_default()),
            (true, false) => write!(text, "\\x{{{first:X}}}"),
            (false, _) => write!(text, "\\x{{{first:X}}}-\\x{{{last:X}}}"),
        };
    };
    let ranges = set.ranges();
    let is_single = ranges.len() == 1 && ranges[0].0 == ranges[0].1;
    ranges.iter().for_each(|&(first, last)| write(first, last));
    if is_single {
        text
    } else {
        format!("[{text}]")
    }
}
