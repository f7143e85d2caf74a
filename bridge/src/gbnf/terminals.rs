//! Chooses the parts of a grammar that become terminals. A lexer that takes the longest match must
//! read the same texts as the grammar.
//!
//! A lexer ends a terminal if no terminal at this place can continue. This is wrong only in one
//! case. One terminal ends, and another (or the same) terminal could continue with the next
//! character. That character also begins what may follow the first terminal. Such a terminal is
//! opened: its parts become terminals. Single characters never continue, so the process ends. All
//! sets are at least as large as the rules allow, so the result is safe. At worst, its terminals
//! are shorter than necessary.

use std::collections::HashSet;

use super::automaton::Automaton;
use super::char_set::CharSet;
use super::parser::{Grammar, Node};

/// Max rounds of opening, and max pairs of terminals that may occur at the same place.
const MAX_ROUNDS: usize = 100;
const MAX_PAIRS: usize = 300_000;

/// A rule's body that consists of terminals.
#[derive(Clone, Debug)]
pub enum Part {
    /// Index into Cut::terminals; each place has a separate terminal.
    Terminal(usize),
    Sequence(Vec<Part>),
    /// No option is empty.
    Choice(Vec<Part>),
    Repeat(Box<Part>, u32, Option<u32>),
    Rule(usize),
}

impl Part {
    fn empty() -> Part {
        Part::Sequence(Vec::new())
    }

    pub fn is_empty(&self) -> bool {
        matches!(self, Part::Sequence(items) if items.is_empty())
    }

    fn optional(self) -> Part {
        if self.is_empty() {
            self
        } else {
            Part::Repeat(Box::new(self), 0, Some(1))
        }
    }
}

pub struct Cut {
    /// No terminal matches the empty text.
    pub terminals: Vec<Node>,
    /// bodies[i] of rule i, if the result contains the rule.
    pub bodies: Vec<Option<Part>>,
    pub root: Part,
}

pub fn cut(grammar: &Grammar) -> Result<Cut, String> {
    let mut cutter = Cutter::new(grammar);
    let root = cutter.part_of(&Node::Rule(grammar.root));
    let mut cut = Cut {
        terminals: std::mem::take(&mut cutter.terminals),
        bodies: std::mem::take(&mut cutter.bodies),
        root,
    };
    // A single terminal has nothing to swallow.
    if cut.bodies.iter().all(Option::is_none) {
        return Ok(cut);
    }
    for _ in 0..MAX_ROUNDS {
        let greedy = greedy_terminals(&cut, &cutter)?;
        if greedy.is_empty() {
            return Ok(cut);
        }
        cutter.terminals = cut.terminals;
        cutter.bodies = cut.bodies;
        let root = cutter.opened(cut.root, &greedy);
        for rule in 0..cutter.bodies.len() {
            if let Some(body) = cutter.bodies[rule].take() {
                let body = cutter.opened(body, &greedy);
                cutter.bodies[rule] = Some(body);
            }
        }
        cut = Cut {
            terminals: std::mem::take(&mut cutter.terminals),
            bodies: std::mem::take(&mut cutter.bodies),
            root,
        };
    }
    Err("the grammar is too complex".into())
}

struct Cutter<'a> {
    grammar: &'a Grammar,
    /// Whether a rule has no recursion, and whether it matches the empty text.
    is_regular: Vec<bool>,
    is_nullable: Vec<bool>,
    terminals: Vec<Node>,
    bodies: Vec<Option<Part>>,
}

impl Cutter<'_> {
    fn new(grammar: &Grammar) -> Cutter<'_> {
        let fixpoint = |holds: fn(&Node, &[bool]) -> bool| {
            let mut known = vec![false; grammar.bodies.len()];
            loop {
                let next: Vec<bool> = grammar.bodies.iter().map(|b| holds(b, &known)).collect();
                if next == known {
                    return known;
                }
                known = next;
            }
        };
        Cutter {
            grammar,
            is_regular: fixpoint(is_regular),
            is_nullable: fixpoint(is_nullable),
            terminals: Vec::new(),
            bodies: vec![None; grammar.bodies.len()],
        }
    }

    fn is_regular(&self, node: &Node) -> bool {
        is_regular(node, &self.is_regular)
    }

    fn is_nullable(&self, node: &Node) -> bool {
        is_nullable(node, &self.is_nullable)
    }

    /// Makes the longest possible terminals.
    fn part_of(&mut self, node: &Node) -> Part {
        if self.is_regular(node) {
            return self.terminal_of(node);
        }
        match node {
            Node::Sequence(items) => {
                let mut parts = Vec::new();
                let mut run = Vec::new();
                for item in items {
                    if self.is_regular(item) {
                        run.push(item.clone());
                        continue;
                    }
                    parts.push(self.run_of(&mut run));
                    parts.push(self.part_of(item));
                }
                parts.push(self.run_of(&mut run));
                in_sequence(parts)
            }
            Node::Choice(options) => {
                let (regular, others): (Vec<Node>, Vec<Node>) = options
                    .iter()
                    .cloned()
                    .partition(|option| self.is_regular(option));
                let mut parts: Vec<Part> = others.iter().map(|o| self.part_of(o)).collect();
                if !regular.is_empty() {
                    parts.push(self.terminal_of(&Node::Choice(regular)));
                }
                one_of(parts)
            }
            Node::Repeat(item, min, max) => {
                let item = self.part_of(item);
                repeated(item, *min, *max)
            }
            Node::Rule(index) => self.rule(*index),
            Node::Class(_) => self.terminal_of(node),
        }
    }

    fn run_of(&mut self, run: &mut Vec<Node>) -> Part {
        let mut items = std::mem::take(run);
        match items.len() {
            0 => Part::empty(),
            1 => self.terminal_of(&items.remove(0)),
            _ => self.terminal_of(&Node::Sequence(items)),
        }
    }

    fn rule(&mut self, index: usize) -> Part {
        if self.bodies[index].is_none() {
            self.bodies[index] = Some(Part::empty()); // for the rules that it mentions
            let body = self.grammar.bodies[index].clone();
            let body = self.part_of(&body);
            self.bodies[index] = Some(body);
        }
        Part::Rule(index)
    }

    /// REQUIRES: the node is regular.
    fn terminal_of(&mut self, node: &Node) -> Part {
        if !self.is_nullable(node) {
            self.terminals.push(node.clone());
            return Part::Terminal(self.terminals.len() - 1);
        }
        match self.not_empty(node) {
            None => Part::empty(),
            Some(node) => {
                self.terminals.push(node);
                Part::Terminal(self.terminals.len() - 1).optional()
            }
        }
    }

    /// Returns the node without the empty text, or None if it has no other text.
    fn not_empty(&self, node: &Node) -> Option<Node> {
        if !self.is_nullable(node) {
            return Some(node.clone());
        }
        match node {
            Node::Class(_) => Some(node.clone()),
            Node::Rule(index) => self.not_empty(&self.grammar.bodies[*index]),
            // The repetition is nullable, so counts below its minimum add no text.
            Node::Repeat(item, _, max) => {
                let item = self.not_empty(item)?;
                Some(Node::Repeat(Box::new(item), 1, *max))
            }
            Node::Choice(options) => {
                let left: Vec<Node> = options.iter().filter_map(|o| self.not_empty(o)).collect();
                (!left.is_empty()).then_some(Node::Choice(left))
            }
            Node::Sequence(items) => {
                // The first item that is not empty, and any of the later items.
                let mut left = Vec::new();
                for (i, item) in items.iter().enumerate() {
                    if let Some(first) = self.not_empty(item) {
                        let mut sequence = vec![first];
                        sequence.extend(items[i + 1..].iter().cloned());
                        left.push(Node::Sequence(sequence));
                    }
                }
                (!left.is_empty()).then_some(Node::Choice(left))
            }
        }
    }

    /// Splits these terminals into their parts.
    fn opened(&mut self, part: Part, terminals: &HashSet<usize>) -> Part {
        match part {
            Part::Terminal(index) if terminals.contains(&index) => {
                let node = self.terminals[index].clone();
                self.parts_of(&node)
            }
            Part::Sequence(items) => in_sequence(
                items
                    .into_iter()
                    .map(|i| self.opened(i, terminals))
                    .collect(),
            ),
            Part::Choice(options) => one_of(
                options
                    .into_iter()
                    .map(|o| self.opened(o, terminals))
                    .collect(),
            ),
            Part::Repeat(item, min, max) => {
                let item = self.opened(*item, terminals);
                repeated(item, min, max)
            }
            other => other,
        }
    }

    fn parts_of(&mut self, node: &Node) -> Part {
        match node {
            Node::Class(_) => self.terminal_of(node),
            Node::Sequence(items) => {
                in_sequence(items.iter().map(|item| self.terminal_of(item)).collect())
            }
            Node::Choice(options) => one_of(
                options
                    .iter()
                    .map(|option| self.terminal_of(option))
                    .collect(),
            ),
            Node::Repeat(item, min, max) => {
                let item = self.terminal_of(item);
                repeated(item, *min, *max)
            }
            Node::Rule(index) => self.rule(*index),
        }
    }
}

fn is_regular(node: &Node, rules: &[bool]) -> bool {
    match node {
        Node::Class(_) => true,
        Node::Sequence(items) | Node::Choice(items) => items.iter().all(|n| is_regular(n, rules)),
        Node::Repeat(item, _, _) => is_regular(item, rules),
        Node::Rule(index) => rules[*index],
    }
}

fn is_nullable(node: &Node, rules: &[bool]) -> bool {
    match node {
        Node::Class(_) => false,
        Node::Sequence(items) => items.iter().all(|item| is_nullable(item, rules)),
        Node::Choice(options) => options.iter().any(|option| is_nullable(option, rules)),
        Node::Repeat(item, min, _) => *min == 0 || is_nullable(item, rules),
        Node::Rule(index) => rules[*index],
    }
}

fn in_sequence(parts: Vec<Part>) -> Part {
    let flat = parts.into_iter().flat_map(|part| match part {
        Part::Sequence(inner) => inner,
        other => vec![other],
    });
    let mut flat: Vec<Part> = flat.collect();
    if flat.len() == 1 {
        flat.remove(0)
    } else {
        Part::Sequence(flat)
    }
}

fn one_of(options: Vec<Part>) -> Part {
    let n_options = options.len();
    let mut left: Vec<Part> = options
        .into_iter()
        .filter(|option| !option.is_empty())
        .collect();
    let has_empty = left.len() < n_options;
    let choice = match left.len() {
        0 => return Part::empty(),
        1 => left.remove(0),
        _ => Part::Choice(left),
    };
    if has_empty {
        choice.optional()
    } else {
        choice
    }
}

fn repeated(item: Part, min: u32, max: Option<u32>) -> Part {
    if item.is_empty() || max == Some(0) {
        Part::empty()
    } else {
        Part::Repeat(Box::new(item), min, max)
    }
}

/// A set of terminals.
#[derive(Clone, PartialEq)]
struct Terminals(Vec<u64>);

impl Terminals {
    fn none(n: usize) -> Terminals {
        Terminals(vec![0; n.div_ceil(64)])
    }

    fn add(&mut self, index: usize) {
        self.0[index / 64] |= 1 << (index % 64);
    }

    fn add_all(&mut self, others: &Terminals) -> bool {
        let mut has_grown = false;
        for (word, other) in self.0.iter_mut().zip(&others.0) {
            has_grown |= *other & !*word != 0;
            *word |= other;
        }
        has_grown
    }

    fn list(&self) -> Vec<usize> {
        let bits = |(i, word): (usize, &u64)| {
            let word = *word;
            (0..64)
                .filter(move |bit| word >> bit & 1 == 1)
                .map(move |bit| i * 64 + bit)
        };
        self.0.iter().enumerate().flat_map(bits).collect()
    }
}

/// Which terminals begin each part, and which terminals follow each terminal.
struct Neighbours<'a> {
    cut: &'a Cut,
    n: usize,
    /// Per rule.
    first: Vec<Terminals>,
    nullable: Vec<bool>,
    follow: Vec<Terminals>,
    /// Per terminal.
    followers: Vec<Terminals>,
    has_grown: bool,
}

impl Neighbours<'_> {
    fn of(cut: &Cut) -> Neighbours<'_> {
        let n = cut.terminals.len();
        let n_rules = cut.bodies.len();
        let mut sets = Neighbours {
            cut,
            n,
            first: vec![Terminals::none(n); n_rules],
            nullable: vec![false; n_rules],
            follow: vec![Terminals::none(n); n_rules],
            followers: vec![Terminals::none(n); n],
            has_grown: true,
        };
        while std::mem::replace(&mut sets.has_grown, false) {
            for (rule, body) in cut.bodies.iter().enumerate() {
                if let Some(body) = body {
                    let (first, nullable) = sets.begin_of(body);
                    sets.has_grown |= sets.first[rule].add_all(&first);
                    sets.has_grown |= nullable && !sets.nullable[rule];
                    sets.nullable[rule] |= nullable;
                }
            }
        }
        sets.has_grown = true;
        while std::mem::replace(&mut sets.has_grown, false) {
            sets.visit(&cut.root, &Terminals::none(n));
            for (rule, body) in cut.bodies.iter().enumerate() {
                if let Some(body) = body {
                    let after = sets.follow[rule].clone();
                    sets.visit(body, &after);
                }
            }
        }
        sets
    }

    fn begin_of(&self, part: &Part) -> (Terminals, bool) {
        let mut first = Terminals::none(self.n);
        match part {
            Part::Terminal(index) => {
                first.add(*index);
                (first, false)
            }
            Part::Sequence(items) => {
                for item in items {
                    let (begin, nullable) = self.begin_of(item);
                    first.add_all(&begin);
                    if !nullable {
                        return (first, false);
                    }
                }
                (first, true)
            }
            Part::Choice(options) => {
                let mut any = false;
                for option in options {
                    let (begin, nullable) = self.begin_of(option);
                    first.add_all(&begin);
                    any |= nullable;
                }
                (first, any)
            }
            Part::Repeat(item, min, _) => {
                let (begin, nullable) = self.begin_of(item);
                (begin, nullable || *min == 0)
            }
            Part::Rule(rule) => (self.first[*rule].clone(), self.nullable[*rule]),
        }
    }

    /// Records what follows the terminals and rules in a part. `after` follows the part itself.
    fn visit(&mut self, part: &Part, after: &Terminals) {
        match part {
            Part::Terminal(index) => self.has_grown |= self.followers[*index].add_all(after),
            Part::Sequence(items) => {
                let mut after = after.clone();
                for item in items.iter().rev() {
                    self.visit(item, &after);
                    let (begin, nullable) = self.begin_of(item);
                    if nullable {
                        after.add_all(&begin);
                    } else {
                        after = begin;
                    }
                }
            }
            Part::Choice(options) => options.iter().for_each(|option| self.visit(option, after)),
            Part::Repeat(item, _, max) => {
                let mut after = after.clone();
                if *max != Some(1) {
                    after.add_all(&self.begin_of(item).0);
                }
                self.visit(item, &after);
            }
            Part::Rule(rule) => self.has_grown |= self.follow[*rule].add_all(after),
        }
    }

    /// Returns the pairs of terminals that may occur at the same place. Includes each terminal with
    /// itself.
    fn pairs(&self) -> Result<HashSet<(usize, usize)>, String> {
        let mut groups: Vec<Vec<usize>> = self.followers.iter().map(Terminals::list).collect();
        groups.push(self.begin_of(&self.cut.root).0.list());
        groups.sort_unstable();
        groups.dedup();
        let mut pairs = HashSet::new();
        for group in groups {
            for &one in &group {
                pairs.extend(group.iter().map(|&other| (one, other)));
                if pairs.len() > MAX_PAIRS {
                    return Err("the grammar is too complex".into());
                }
            }
        }
        Ok(pairs)
    }
}

/// Returns terminals that may swallow the beginning of the text after them or after another
/// terminal.
fn greedy_terminals(cut: &Cut, cutter: &Cutter) -> Result<HashSet<usize>, String> {
    let sets = Neighbours::of(cut);
    let automata: Vec<Option<Automaton>> = cut
        .terminals
        .iter()
        .map(|node| Automaton::of(node, cutter.grammar))
        .collect();
    let lead_bytes_after = |index: usize| {
        let begin = |next: usize| automata[next].as_ref().map(Automaton::first_bytes);
        sets.followers[index]
            .list()
            .into_iter()
            // An automaton that is too large is opened in this round; the next round knows its
            // beginning.
            .filter_map(begin)
            .fold(CharSet::default(), |all, set| all.union(&set))
    };
    let mut greedy: HashSet<usize> = (0..automata.len())
        .filter(|index| automata[*index].is_none())
        .collect();
    let mut next_bytes: Vec<Option<CharSet>> = vec![None; automata.len()];
    for (one, other) in sets.pairs()? {
        let (Some(ending), Some(going_on)) = (&automata[one], &automata[other]) else {
            continue;
        };
        if greedy.contains(&other) || going_on.is_single() {
            continue;
        }
        let next = next_bytes[one].get_or_insert_with(|| lead_bytes_after(one));
        if ending.is_swallowed_by(going_on, next) {
            greedy.insert(other);
        }
    }
    Ok(greedy)
}
