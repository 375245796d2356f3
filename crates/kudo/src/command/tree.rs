//! Trees of text, with lines between the nodes.

/// A node and those below it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Tree {
    label: String,
    branches: Vec<Tree>,
}

impl Tree {
    pub(super) fn new(label: impl Into<String>) -> Self {
        Self {
            label: label.into(),
            branches: Vec::new(),
        }
    }

    /// The root of other trees.
    pub(super) fn root(branches: Vec<Self>) -> Self {
        Self {
            label: ".".to_owned(),
            branches,
        }
    }

    pub(super) fn with(mut self, branches: impl IntoIterator<Item = Self>) -> Self {
        self.branches.extend(branches);
        self
    }

    /// The lines of the tree.
    pub(super) fn to_text(&self) -> String {
        let mut text = format!("{}\n", self.label);
        self.write_branches("", &mut text);
        text
    }

    fn write_branches(&self, indent: &str, text: &mut String) {
        for (i, branch) in self.branches.iter().enumerate() {
            let is_last = i + 1 == self.branches.len();
            let (edge, below) = if is_last {
                ("└── ", "    ")
            } else {
                ("├── ", "│   ")
            };
            text.push_str(&format!("{indent}{edge}{}\n", branch.label));
            branch.write_branches(&format!("{indent}{below}"), text);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn branches_are_joined_by_lines() {
        let tree = Tree::root(vec![Tree::new("a").with([Tree::new("b")]), Tree::new("c")]);
        assert_eq!(tree.to_text(), ".\n├── a\n│   └── b\n└── c\n");
    }
}
