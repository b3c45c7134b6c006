//! Where in an object a check is, at no cost until there is something to say about the place.

use crate::Path;

/// The way from the root of an object to a value in it.
#[derive(Clone, Copy)]
pub(crate) struct Trail<'a> {
    parent: Option<&'a Trail<'a>>,
    step: Step<'a>,
}

#[derive(Clone, Copy)]
enum Step<'a> {
    Root,
    Field(&'a str),
    Key(&'a str),
    Index(usize),
}

impl<'a> Trail<'a> {
    pub(crate) const ROOT: Trail<'static> = Trail { parent: None, step: Step::Root };

    pub(crate) fn is_root(&self) -> bool {
        matches!(self.step, Step::Root)
    }

    pub(crate) fn field(&'a self, name: &'a str) -> Self {
        Trail { parent: Some(self), step: Step::Field(name) }
    }

    /// An entry of a map (`additionalProperties`).
    pub(crate) fn key(&'a self, key: &'a str) -> Self {
        Trail { parent: Some(self), step: Step::Key(key) }
    }

    pub(crate) fn index(&'a self, index: usize) -> Self {
        Trail { parent: Some(self), step: Step::Index(index) }
    }

    /// The place below `base`, map entries in brackets: `spec.labels[app]`.
    pub(crate) fn path(&self, base: &Path) -> Path {
        let parent = || self.parent.map_or_else(|| base.clone(), |parent| parent.path(base));
        match self.step {
            Step::Root => base.clone(),
            Step::Field(name) => parent().child(name),
            Step::Key(key) => parent().key(key),
            Step::Index(index) => parent().index(index),
        }
    }

    /// The place as the value validations name it, map entries behind dots: `spec.labels.app`.
    pub(crate) fn dotted(&self) -> String {
        let mut text = self.parent.map(Trail::dotted).unwrap_or_default();
        match self.step {
            Step::Root => {}
            Step::Field(name) => {
                if !text.is_empty() {
                    text.push('.');
                }
                text += name;
            }
            Step::Key(key) => text = text + "." + key,
            Step::Index(index) => text += &format!("[{index}]"),
        }
        text
    }

    /// Like [`Trail::dotted`], below `base`.
    pub(crate) fn dotted_path(&self, base: &Path) -> Path {
        below(base, &self.dotted())
    }
}

/// The place that a validation's name stands for.
pub(crate) fn below(base: &Path, name: &str) -> Path {
    match name.strip_prefix('.').unwrap_or(name) {
        "" => base.clone(),
        name => base.child(name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways_of_writing_a_place() {
        let base = Path::new("default");
        let (root, spec) = (Trail::ROOT, Trail::ROOT.field("spec"));
        let labels = spec.field("labels");
        let app = labels.key("app");
        let item = app.index(3);
        assert_eq!(item.path(&Path::root()).as_str(), "spec.labels[app][3]");
        assert_eq!(item.dotted(), "spec.labels.app[3]");
        assert_eq!(item.dotted_path(&base).as_str(), "default.spec.labels.app[3]");
        assert_eq!(root.dotted_path(&base).as_str(), "default");
        assert_eq!(root.key("x").dotted(), ".x");
        assert_eq!(root.key("x").dotted_path(&base).as_str(), "default.x");
    }
}
