//! Formats messages of the engines as one line of text.

const MAX_MESSAGE_BYTES: usize = 500;

pub fn one_line(message: &str) -> String {
    let is_break = |c: char| c.is_control() || c == '\u{2028}' || c == '\u{2029}';
    let mut line: String = message
        .chars()
        .map(|c| if is_break(c) { ' ' } else { c })
        .collect();
    if line.len() > MAX_MESSAGE_BYTES {
        line.truncate(
            (0..=MAX_MESSAGE_BYTES)
                .rev()
                .find(|at| line.is_char_boundary(*at))
                .unwrap_or(0),
        );
        line += " ...";
    }
    line
}
