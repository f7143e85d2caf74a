//! Simplifies the rules before terminals are chosen. Removes alternatives that never end, and turns
//! recursion that expresses a repetition into a repetition.

use super::parser::{Grammar, Node};

pub fn simplified(mut grammar: Grammar) -> Result<Grammar, String> {
    let ends = ending_rules(&grammar);
    if !ends[grammar.root] {
        return Err("rule \"root\" matches no text that ends".into());
    }
    for body in &mut grammar.bodies {
        *body = pruned(body, &ends).unwrap_or_else(Node::empty);
    }
    for index in 0..grammar.bodies.len() {
        if let Some(body) = without_tail_recursion(index, &grammar.bodies[index]) {
            grammar.bodies[index] = body;
        }
    }
    Ok(grammar)
}

/// Returns which rules match some text.
fn ending_rules(grammar: &Grammar) -> Vec<bool> {
    let mut ends = vec![false; grammar.bodies.len()];
    loop {
        let next: Vec<bool> = grammar
            .bodies
            .iter()
            .map(|body| can_end(body, &ends))
            .collect();
        if next == ends {
            return ends;
        }
        ends = next;
    }
}

fn can_end(node: &Node, ends: &[bool]) -> bool {
    match node {
        Node::Class(set) => !set.is_empty(),
        Node::Sequence(items) => items.iter().all(|item| can_end(item, ends)),
        Node::Choice(options) => options.iter().any(|option| can_end(option, ends)),
        Node::Repeat(_, 0, _) => true,
        Node::Repeat(item, _, _) => can_end(item, ends),
        Node::Rule(index) => ends[*index],
    }
}

/// Removes alternatives that never end. Returns None if nothing is left.
fn pruned(node: &Node, ends: &[bool]) -> Option<Node> {
    match node {
        Node::Choice(options) => {
            let mut left: Vec<Node> = options.iter().filter_map(|o| pruned(o, ends)).collect();
            match left.len() {
                0 => None,
                1 => Some(left.remove(0)),
                _ => Some(Node::Choice(left)),
            }
        }
        Node::Sequence(items) => {
            let left: Option<Vec<Node>> = items.iter().map(|item| pruned(item, ends)).collect();
            let flat = left?.into_iter().flat_map(|item| match item {
                Node::Sequence(inner) => inner,
                other => vec![other],
            });
            let mut flat: Vec<Node> = flat.collect();
            Some(if flat.len() == 1 {
                flat.remove(0)
            } else {
                Node::Sequence(flat)
            })
        }
        Node::Repeat(_, _, Some(0)) => Some(Node::empty()),
        Node::Repeat(item, min, max) => match pruned(item, ends) {
            Some(item) if *min == 1 && *max == Some(1) => Some(item),
            Some(item) => Some(Node::Repeat(Box::new(item), *min, *max)),
            None if *min == 0 => Some(Node::empty()),
            None => None,
        },
        other => can_end(other, ends).then(|| other.clone()),
    }
}

/// Turns `r ::= a r | b` into `a* b`. Returns None if the rule does not mention itself, or mentions
/// itself elsewhere than at its end.
fn without_tail_recursion(rule: usize, body: &Node) -> Option<Node> {
    if !mentions(body, rule) {
        return None;
    }
    let tails = tails_of(body, rule)?;
    if tails.last.is_empty() {
        return None;
    }
    let again = Node::Repeat(Box::new(one_of(tails.again)), 0, None);
    Some(in_sequence(vec![again, one_of(tails.last)]))
}

pub fn mentions(node: &Node, rule: usize) -> bool {
    match node {
        Node::Class(_) => false,
        Node::Sequence(items) | Node::Choice(items) => items.iter().any(|n| mentions(n, rule)),
        Node::Repeat(item, _, _) => mentions(item, rule),
        Node::Rule(index) => *index == rule,
    }
}

/// The alternatives of a body: those that end with the rule itself, and those without it.
struct Tails {
    again: Vec<Node>,
    last: Vec<Node>,
}

fn tails_of(node: &Node, rule: usize) -> Option<Tails> {
    if !mentions(node, rule) {
        return Some(Tails {
            again: vec![],
            last: vec![node.clone()],
        });
    }
    match node {
        Node::Rule(_) => Some(Tails {
            again: vec![Node::empty()],
            last: vec![],
        }),
        Node::Choice(options) => {
            let mut all = Tails {
                again: vec![],
                last: vec![],
            };
            for option in options {
                let tails = tails_of(option, rule)?;
                all.again.extend(tails.again);
                all.last.extend(tails.last);
            }
            Some(all)
        }
        Node::Sequence(items) => {
            let (tail, head) = items.split_last()?;
            if head.iter().any(|item| mentions(item, rule)) {
                return None;
            }
            let with_items = |node: Node| {
                let mut items = head.to_vec();
                items.push(node);
                in_sequence(items)
            };
            let tails = tails_of(tail, rule)?;
            Some(Tails {
                again: tails.again.into_iter().map(with_items).collect(),
                last: tails.last.into_iter().map(with_items).collect(),
            })
        }
        Node::Repeat(item, 0, Some(1)) => {
            let mut tails = tails_of(item, rule)?;
            tails.last.push(Node::empty());
            Some(tails)
        }
        _ => None,
    }
}

fn one_of(mut options: Vec<Node>) -> Node {
    if options.len() == 1 {
        options.remove(0)
    } else {
        Node::Choice(options)
    }
}

fn in_sequence(items: Vec<Node>) -> Node {
    let flat = items.into_iter().flat_map(|item| match item {
        Node::Sequence(inner) => inner,
        other => vec![other],
    });
    Node::Sequence(flat.collect())
}
