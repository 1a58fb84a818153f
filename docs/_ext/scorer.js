// How the search orders pages: those that answer a question come before those that mention its words.
// Sphinx's own scores, and one function more; Sphinx gives 15 for a word in a title, 5 in the text.

var Scorer = {
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: {0: 15, 1: 5, 2: -5},
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,

  score: ([page, _title, _anchor, _description, score]) => {
    if (page === "cookbook/index") return score;
    if (page.startsWith("cookbook/")) return score + 6;
    if (page.startsWith("learn/") || page === "faq") return score + 4;
    const forContributors = ["decisions/", "architecture", "contributing", "releasing", "stand-in"];
    const lists = ["benchmarks", "changelog", "conformance", "hardware"];
    if ([...forContributors, ...lists].some((each) => page.startsWith(each))) return score - 4;
    return score;
  },
};
