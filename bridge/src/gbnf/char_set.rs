//! Sets of Unicode characters, as sorted ranges that do not touch.

const LAST: u32 = 0x10FFFF;
const SURROGATES: (u32, u32) = (0xD800, 0xDFFF);

#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub struct CharSet(Vec<(u32, u32)>);

impl CharSet {
    pub fn new(ranges: impl IntoIterator<Item = (u32, u32)>) -> CharSet {
        let mut ranges: Vec<(u32, u32)> = ranges.into_iter().filter(|(a, b)| a <= b).collect();
        ranges.sort_unstable();
        let mut merged: Vec<(u32, u32)> = Vec::new();
        for (first, last) in ranges {
            match merged.last_mut() {
                Some(open) if first <= open.1.saturating_add(1) => open.1 = open.1.max(last),
                _ => merged.push((first, last)),
            }
        }
        CharSet(merged).without_surrogates()
    }

    pub fn of(c: u32) -> CharSet {
        CharSet::new([(c, c)])
    }

    pub fn all() -> CharSet {
        CharSet::new([(0, LAST)])
    }

    pub fn complement(&self) -> CharSet {
        let mut gaps = Vec::new();
        let mut next = 0;
        for &(first, last) in &self.0 {
            if first > next {
                gaps.push((next, first - 1));
            }
            next = last + 1;
        }
        if next <= LAST {
            gaps.push((next, LAST));
        }
        CharSet(gaps).without_surrogates()
    }

    /// Removes surrogates, which are not characters.
    fn without_surrogates(self) -> CharSet {
        let (low, high) = SURROGATES;
        let cut = self.0.into_iter().flat_map(|(first, last)| {
            let before = (first, last.min(low - 1));
            let after = (first.max(high + 1), last);
            if last < low || first > high {
                vec![(first, last)]
            } else {
                vec![before, after]
            }
        });
        CharSet(cut.filter(|(first, last)| first <= last).collect())
    }

    pub fn union(&self, other: &CharSet) -> CharSet {
        CharSet::new(self.0.iter().chain(&other.0).copied())
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn ranges(&self) -> &[(u32, u32)] {
        &self.0
    }

    pub fn meets(&self, other: &CharSet) -> bool {
        let (mut a, mut b) = (self.0.iter().peekable(), other.0.iter().peekable());
        while let (Some(x), Some(y)) = (a.peek(), b.peek()) {
            if x.1 < y.0 {
                a.next();
            } else if y.1 < x.0 {
                b.next();
            } else {
                return true;
            }
        }
        false
    }

    /// Returns the first UTF-8 bytes of the characters. A lexer decides by this byte of the next
    /// character.
    pub fn lead_bytes(&self) -> CharSet {
        CharSet::new(
            self.0
                .iter()
                .map(|&(first, last)| (lead_byte(first), lead_byte(last))),
        )
    }
}

fn lead_byte(c: u32) -> u32 {
    match c {
        0..=0x7F => c,
        0x80..=0x7FF => 0xC0 | (c >> 6),
        0x800..=0xFFFF => 0xE0 | (c >> 12),
        _ => 0xF0 | (c >> 18),
    }
}
