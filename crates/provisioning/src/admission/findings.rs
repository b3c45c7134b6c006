//! What checks find.

use kubeapi::FieldError;

/// One thing that is refused.
#[derive(Clone, Debug, PartialEq)]
pub struct Refusal {
    /// HTTP status code, as Rancher answers.
    pub code: u16,
    /// Where and what.
    pub error: FieldError,
}

/// What the checks of one request have found.
#[derive(Clone, Debug, Default)]
pub struct Findings {
    refusals: Vec<Refusal>,
    warnings: Vec<String>,
}

impl Findings {
    /// The request is malformed.
    pub(super) fn invalid(&mut self, errors: impl IntoIterator<Item = FieldError>) {
        self.refuse(422, errors);
    }

    /// The request is well formed and cannot be done.
    pub(super) fn bad(&mut self, errors: impl IntoIterator<Item = FieldError>) {
        self.refuse(400, errors);
    }

    /// The user may not.
    pub(super) fn unauthorized(&mut self, errors: impl IntoIterator<Item = FieldError>) {
        self.refuse(401, errors);
    }

    fn refuse(&mut self, code: u16, errors: impl IntoIterator<Item = FieldError>) {
        self.refusals.extend(errors.into_iter().map(|error| Refusal { code, error }));
    }

    /// The request is done, and the user should know something.
    pub(super) fn warn(&mut self, words: impl Into<String>) {
        self.warnings.push(words.into());
    }

    pub(super) fn verdict(self) -> Verdict {
        Verdict { refusals: self.refusals, warnings: self.warnings }
    }
}

/// The answer to a request.
#[derive(Clone, Debug, Default, PartialEq)]
#[must_use]
pub struct Verdict {
    /// What is wrong, in the order of the checks; nothing means that the request is admitted.
    pub refusals: Vec<Refusal>,
    /// What the user should know.
    pub warnings: Vec<String>,
}

impl Verdict {
    /// Whether the request is admitted.
    pub fn is_admitted(&self) -> bool {
        self.refusals.is_empty()
    }

    /// The answer's status code.
    pub fn code(&self) -> u16 {
        self.refusals.first().map_or(200, |refusal| refusal.code)
    }

    /// The answer's message: everything that is wrong.
    pub fn message(&self) -> String {
        let words: Vec<String> = self.refusals.iter().map(|refusal| refusal.error.to_string()).collect();
        match &words[..] {
            [] => String::new(),
            [one] => one.clone(),
            several => format!("[{}]", several.join(", ")),
        }
    }
}
