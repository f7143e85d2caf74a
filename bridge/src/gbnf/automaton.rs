//! A terminal as a Glushkov automaton of its characters: each place of a character in the
//! expression is a state.

use std::collections::HashSet;

use super::char_set::CharSet;
use super::parser::{Grammar, Node};

/// A terminal with more states is split instead.
const MAX_STATES: usize = 1_000;
const MAX_STEPS: usize = 100_000;
/// Repetitions up to this count are written out. Larger counts become unlimited, so the automaton
/// only matches more texts.
const MAX_COPIES: u32 = 4;

pub struct Automaton {
    /// The character that leads to each state.
    characters: Vec<CharSet>,
    lead_bytes: Vec<CharSet>,
    first: Vec<usize>,
    is_last: Vec<bool>,
    next: Vec<Vec<usize>>,
    n_steps: usize,
}

/// The ends of a part of the expression.
struct Ends {
    first: Vec<usize>,
    last: Vec<usize>,
    is_nullable: bool,
}

impl Automaton {
    /// Returns None if the automaton would be too large.
    pub fn of(node: &Node, grammar: &Grammar) -> Option<Automaton> {
        let mut automaton = Automaton {
            characters: Vec::new(),
            lead_bytes: Vec::new(),
            first: Vec::new(),
            is_last: Vec::new(),
            next: Vec::new(),
            n_steps: 0,
        };
        let ends = automaton.add(node, grammar)?;
        automaton.lead_bytes = automaton
            .characters
            .iter()
            .map(CharSet::lead_bytes)
            .collect();
        automaton.first = ends.first;
        automaton.is_last = vec![false; automaton.characters.len()];
        for state in ends.last {
            automaton.is_last[state] = true;
        }
        for next in &mut automaton.next {
            next.sort_unstable();
            next.dedup();
        }
        Some(automaton)
    }

    /// Returns whether every text of the terminal is a single character.
    pub fn is_single(&self) -> bool {
        self.next.iter().all(Vec::is_empty)
    }

    pub fn first_bytes(&self) -> CharSet {
        self.first
            .iter()
            .fold(CharSet::default(), |all, s| all.union(&self.lead_bytes[*s]))
    }

    /// Returns whether a text of this terminal is the beginning of a text of `other` that continues
    /// with one of these lead bytes.
    pub fn is_swallowed_by(&self, other: &Automaton, next_bytes: &CharSet) -> bool {
        let mut seen = HashSet::new();
        let mut open = Vec::new();
        self.meet(&self.first, other, &other.first, &mut seen, &mut open);
        while let Some((mine, its)) = open.pop() {
            let goes_on = |next: &usize| other.lead_bytes[*next].meets(next_bytes);
            if self.is_last[mine] && other.next[its].iter().any(goes_on) {
                return true;
            }
            self.meet(
                &self.next[mine],
                other,
                &other.next[its],
                &mut seen,
                &mut open,
            );
        }
        false
    }

    /// Adds the pairs of states that the same character reaches.
    fn meet(
        &self,
        mine: &[usize],
        other: &Automaton,
        its: &[usize],
        seen: &mut HashSet<(usize, usize)>,
        open: &mut Vec<(usize, usize)>,
    ) {
        for &a in mine {
            for &b in its {
                if self.characters[a].meets(&other.characters[b]) && seen.insert((a, b)) {
                    open.push((a, b));
                }
            }
        }
    }

    fn add(&mut self, node: &Node, grammar: &Grammar) -> Option<Ends> {
        self.n_steps += 1;
        if self.n_steps > MAX_STEPS {
            return None;
        }
        match node {
            Node::Class(set) => {
                if self.characters.len() == MAX_STATES {
                    return None;
                }
                let state = self.characters.len();
                self.characters.push(set.clone());
                self.next.push(Vec::new());
                Some(Ends {
                    first: vec![state],
                    last: vec![state],
                    is_nullable: false,
                })
            }
            Node::Rule(index) => self.add(&grammar.bodies[*index], grammar),
            Node::Sequence(items) => {
                let mut all = Ends {
                    first: vec![],
                    last: vec![],
                    is_nullable: true,
                };
                for item in items {
                    let ends = self.add(item, grammar)?;
                    all = self.joined(all, ends);
                }
                Some(all)
            }
            Node::Choice(options) => {
                let mut all = Ends {
                    first: vec![],
                    last: vec![],
                    is_nullable: false,
                };
                for option in options {
                    let ends = self.add(option, grammar)?;
                    all.first.extend(ends.first);
                    all.last.extend(ends.last);
                    all.is_nullable |= ends.is_nullable;
                }
                Some(all)
            }
            Node::Repeat(item, min, max) => self.add_repeated(item, *min, *max, grammar),
        }
    }

    fn add_repeated(
        &mut self,
        item: &Node,
        min: u32,
        max: Option<u32>,
        grammar: &Grammar,
    ) -> Option<Ends> {
        if let Some(max) = max.filter(|max| *max <= MAX_COPIES) {
            let mut all = Ends {
                first: vec![],
                last: vec![],
                is_nullable: true,
            };
            for i in 0..max {
                let mut ends = self.add(item, grammar)?;
                ends.is_nullable |= i >= min;
                all = self.joined(all, ends);
            }
            return Some(all);
        }
        let mut ends = self.add(item, grammar)?;
        self.connect(&ends.last, &ends.first);
        ends.is_nullable |= min == 0;
        Some(ends)
    }

    fn connect(&mut self, from: &[usize], to: &[usize]) {
        for state in from {
            self.next[*state].extend(to);
        }
    }

    fn joined(&mut self, mut one: Ends, other: Ends) -> Ends {
        self.connect(&one.last, &other.first);
        if one.is_nullable {
            one.first.extend(&other.first);
        }
        if other.is_nullable {
            one.last.extend(&other.last);
        } else {
            one.last = other.last;
        }
        one.is_nullable &= other.is_nullable;
        one
    }
}
