use clock::Entropy;

/// Letters and digits that are not mistaken for each other and spell no words.
const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
/// Letters of a token: 256 bits.
const TOKEN_LENGTH: usize = 54;
/// Letters of a token that a management cluster's name has.
const CLUSTER_LENGTH: usize = 8;

/// A token that cannot be guessed, fit for names and URLs.
pub fn token(entropy: &mut dyn Entropy) -> String {
    (0..TOKEN_LENGTH).map(|_| char::from(ALPHABET[entropy.below(ALPHABET.len() as u32) as usize])).collect()
}

/// A name for a new management cluster, such as `c-m-w2bfx9xq`.
pub fn management_cluster(entropy: &mut dyn Entropy) -> String {
    format!("c-m-{}", &token(entropy)[..CLUSTER_LENGTH])
}

#[cfg(test)]
mod tests {
    use clock::SeededEntropy;

    use super::*;

    #[test]
    fn tokens_have_the_length_and_the_letters() {
        let mut entropy = SeededEntropy::new(3);
        let token = token(&mut entropy);
        assert_eq!(token.len(), 54);
        assert!(token.bytes().all(|letter| ALPHABET.contains(&letter)));
        let name = management_cluster(&mut entropy);
        assert_eq!(name.len(), 12);
        assert!(name.starts_with("c-m-"));
        assert_ne!(name, management_cluster(&mut entropy));
    }
}
