//! The normalization that most Score plugins use.

use crate::framework::{MAX_SCORE, NodeScore};

/// Scales scores from 0 to their maximum to 0 to [`MAX_SCORE`]; with `reverse`, the lowest score becomes the best.
pub fn default_normalize(scores: &mut [NodeScore], reverse: bool) {
    let most = scores.iter().map(|one| one.score).max().unwrap_or(0);
    for one in scores {
        let scaled = match most {
            0 => 0,
            most => MAX_SCORE * one.score / most,
        };
        one.score = if reverse { MAX_SCORE - scaled } else { scaled };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::NodeIndex;

    #[track_caller]
    fn check(scores: &[i64], reverse: bool, expected: &[i64]) {
        let node = |score: &i64| NodeScore {
            node: NodeIndex(0),
            score: *score,
        };
        let mut scores: Vec<NodeScore> = scores.iter().map(node).collect();
        default_normalize(&mut scores, reverse);
        let scores: Vec<i64> = scores.iter().map(|one| one.score).collect();
        assert_eq!(scores, expected);
    }

    #[test]
    fn scores_are_scaled_to_the_highest() {
        check(&[1, 2, 3], false, &[33, 66, 100]);
        check(&[1, 2, 3], true, &[67, 34, 0]);
        check(&[0, 0], false, &[0, 0]);
        check(&[0, 0], true, &[100, 100]);
    }
}
