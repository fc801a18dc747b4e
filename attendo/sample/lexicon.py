"""The words of the sample corpus: English and German side by side, with what inflection has to know.

The words stand in tables, one entry a line, the two languages separated by `|`, so that someone who knows German can
read and correct them. Each English entry has one German translation; that, with one rule for each tense and each
position, is why an English sentence of the corpus has exactly one German one.

nouns        singular plural | article singular plural [genitive]
             `weak` instead of the genitive: all forms but the nominative singular equal the plural (der Junge, den
             Jungen). A line `[category: adjectives]` opens a category and says which adjectives make sense with it.
             A noun of which there is no number (milk) has `-` for its plurals.
places       as nouns, then | English preposition, German one for "at" (dative), German one for "to"
adjectives   positive [comparative] | positive [comparative [stem]]
verbs        base 3rd-singular past participle | infinitive 3rd-singular preterite participle [sein] \
        | objects | places
             `turn+on` marks an English particle, `ein+schalten` a separable prefix, `Fußball_spielen` a word that
             stands where a separable prefix would. Objects are nouns or `@category`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Gender = Literal["masculine", "feminine", "neuter"]
Case = Literal["nominative", "accusative", "dative", "genitive"]

GENDER_OF_ARTICLE: Mapping[str, Gender] = {"der": "masculine", "die": "feminine", "das": "neuter"}


@dataclass(frozen=True, kw_only=True)
class Adjective:
    """German: `predicate` stands alone (teuer), `stem` takes the endings (ein teur-es Auto)."""

    english: str
    english_comparative: str
    predicate: str
    comparative: str
    stem: str


@dataclass(frozen=True, kw_only=True)
class Noun:
    """A noun, the adjectives that make sense with it, and its German declension."""

    english: str
    english_plural: str
    german: str
    german_plural: str
    gender: Gender
    genitive: str
    weak: bool
    countable: bool
    category: str
    adjectives: tuple[Adjective, ...]

    def decline(self, case: Case, *, plural: bool) -> str:
        """The German form: der Apfel, des Apfels; der Junge, den Jungen; die Kinder, den Kindern."""
        if plural:
            needs_n = case == "dative" and not self.german_plural.endswith(("n", "s"))
            return self.german_plural + "n" if needs_n else self.german_plural
        if case == "genitive":
            return self.genitive
        return self.german_plural if self.weak and case != "nominative" else self.german


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where something happens (`at`, German dative) or leads to (`to`: "in" with accusative, "zu" with dative)."""

    noun: Noun
    english_at: str
    german_at: str
    german_to: str


@dataclass(frozen=True, kw_only=True)
class Verb:
    """A verb in both languages; `objects` and `places` are what it makes sense with."""

    base: str
    third: str
    past: str
    past_participle: str
    particle: str
    infinitive: str
    german_third: str
    preterite: str
    participle: str
    prefix: str
    complement: str
    with_sein: bool
    objects: tuple[Noun, ...]
    places: tuple[Place, ...]
    case: Case

    @property
    def name(self) -> str:
        return f"{self.base} {self.particle}".strip()


@dataclass(frozen=True, kw_only=True)
class Modal:
    """can, kann: followed by an infinitive in both languages. The German first person equals the third."""

    singular: str
    plural: str
    german_singular: str
    german_plural: str


@dataclass(frozen=True, kw_only=True)
class Adverbial:
    """A time, a manner, a place: words that do not change, and the word combinations they are made of."""

    english: str
    german: str
    combinations: frozenset[tuple[str, str]] = frozenset()


def _lines(table: str) -> list[str]:
    return [line.strip() for line in table.strip().splitlines()]


def _columns(line: str) -> list[str]:
    return [column.strip() for column in line.split("|")]


def _adjectives(table: str) -> dict[str, Adjective]:
    adjectives = {}
    for line in _lines(table):
        english, german = (column.split() for column in _columns(line))
        adjectives[english[0]] = Adjective(
            english=english[0],
            english_comparative=english[1] if len(english) > 1 else f"more {english[0]}",
            predicate=german[0],
            comparative=german[1] if len(german) > 1 else german[0] + "er",
            stem=german[2] if len(german) > 2 else german[0],
        )
    return adjectives


def _noun(english: str, german: str, category: str, adjectives: tuple[Adjective, ...]) -> Noun:
    singular, plural = english.split()
    article, german_singular, german_plural, *rest = german.split()
    gender = GENDER_OF_ARTICLE[article]
    weak = rest == ["weak"]
    if weak:
        genitive = german_plural
    elif rest:
        genitive = rest[0]
    elif gender == "feminine":
        genitive = german_singular
    else:
        genitive = german_singular + ("es" if german_singular.endswith(("s", "ß", "z")) else "s")
    return Noun(
        english=singular,
        english_plural=plural,
        german=german_singular,
        german_plural=german_plural,
        gender=gender,
        genitive=genitive,
        weak=weak,
        countable=plural != "-",
        category=category,
        adjectives=adjectives,
    )


def _nouns(table: str) -> tuple[dict[str, Noun], dict[str, Place]]:
    nouns, places = {}, {}
    category, adjectives = "", tuple[Adjective, ...]()
    for line in _lines(table):
        if line.startswith("["):
            category, _, fitting = line.strip("[]").partition(":")
            adjectives = tuple(ADJECTIVES[word] for word in fitting.split())
            continue
        english, german, *position = _columns(line)
        noun = _noun(english, german, category, adjectives)
        nouns[noun.english] = noun
        if position:
            english_at, german_at, german_to = position[0].split()
            places[noun.english] = Place(noun=noun, english_at=english_at, german_at=german_at, german_to=german_to)
    return nouns, places


def nouns_of(words: str) -> tuple[Noun, ...]:
    """The nouns named in `words`: English singulars, or `@category` for a whole category."""
    found: list[Noun] = []
    for word in words.split():
        if word.startswith("@"):
            found += [noun for noun in NOUNS.values() if noun.category == word[1:]]
        else:
            found.append(NOUNS[word])
    return tuple(found)


def _verbs(table: str, *, case: Case = "accusative") -> dict[str, Verb]:
    verbs = {}
    for line in _lines(table):
        english, german, objects, places = [*_columns(line), "", ""][:4]
        base, third, past, past_participle = english.split()
        base, _, particle = base.partition("+")
        infinitive, german_third, preterite, participle, *auxiliary = german.split()
        complement, _, infinitive = infinitive.rpartition("_")
        prefix, _, infinitive = infinitive.rpartition("+")
        verb = Verb(
            base=base,
            third=third,
            past=past,
            past_participle=past_participle,
            particle=particle.replace("_", " "),
            infinitive=infinitive,
            german_third=german_third,
            preterite=preterite,
            participle=participle,
            prefix=prefix,
            complement=complement,
            with_sein=auxiliary == ["sein"],
            objects=nouns_of(objects),
            places=tuple(PLACES[word] for word in places.split()),
            case=case,
        )
        verbs[verb.name] = verb
    return verbs


def _adverbials(table: str) -> tuple[Adverbial, ...]:
    pairs = (_columns(line) for line in _lines(table))
    return tuple(Adverbial(english=english, german=german) for english, german in pairs)


ADJECTIVES = _adjectives("""
    old older | alt älter
    young younger | jung jünger
    tall taller | groß größer
    big bigger | groß größer
    small smaller | klein
    friendly friendlier | freundlich
    tired | müde müder müd
    happy happier | glücklich
    clever cleverer | klug klüger
    famous | berühmt
    strong stronger | stark stärker
    rich richer | reich
    poor poorer | arm ärmer
    hungry hungrier | hungrig
    polite | höflich
    nice nicer | nett
    funny funnier | lustig
    curious | neugierig
    hard-working | fleißig
    lazy lazier | faul
    fast faster | schnell
    slow slower | langsam
    wild wilder | wild
    beautiful | schön
    red redder | rot
    blue bluer | blau
    green greener | grün
    yellow yellower | gelb
    black blacker | schwarz
    white whiter | weiß
    brown browner | braun
    grey greyer | grau
    fresh fresher | frisch
    sweet sweeter | süß
    ripe riper | reif
    delicious | lecker
    cheap cheaper | billig
    expensive | teuer teurer teur
    cold colder | kalt kälter
    hot hotter | heiß
    warm warmer | warm wärmer
    interesting | interessant
    long longer | lang länger
    short shorter | kurz kürzer
    exciting | spannend
    boring | langweilig
    sad sadder | traurig
    new newer | neu
    elegant | elegant
    dirty dirtier | schmutzig
    clean cleaner | sauber
    heavy heavier | schwer
    comfortable | bequem
    modern | modern
    quiet quieter | ruhig
""")

NOUNS, PLACES = _nouns(
    """
    [person: old young tall friendly tired happy clever famous strong rich poor hungry polite nice funny hard-working]
    man men | der Mann Männer Mannes
    woman women | die Frau Frauen
    teacher teachers | der Lehrer Lehrer
    nurse nurses | die Krankenschwester Krankenschwestern
    farmer farmers | der Bauer Bauern weak
    baker bakers | der Bäcker Bäcker
    painter painters | der Maler Maler
    musician musicians | der Musiker Musiker
    singer singers | die Sängerin Sängerinnen
    policeman policemen | der Polizist Polizisten weak
    mechanic mechanics | der Mechaniker Mechaniker
    cook cooks | der Koch Köche Kochs
    gardener gardeners | der Gärtner Gärtner
    engineer engineers | der Ingenieur Ingenieure
    author authors | der Autor Autoren
    waitress waitresses | die Kellnerin Kellnerinnen
    lawyer lawyers | der Anwalt Anwälte
    saleswoman saleswomen | die Verkäuferin Verkäuferinnen
    fisherman fishermen | der Fischer Fischer
    actress actresses | die Schauspielerin Schauspielerinnen

    [youth: tall friendly tired happy clever poor hungry polite nice funny hard-working]
    boy boys | der Junge Jungen weak
    girl girls | das Mädchen Mädchen
    child children | das Kind Kinder Kindes
    pupil pupils | der Schüler Schüler
    student students | der Student Studenten weak

    [acquaintance: old young tall famous polite nice funny curious lazy rich]
    neighbour neighbours | der Nachbar Nachbarn weak
    friend friends | der Freund Freunde Freundes
    doctor doctors | der Arzt Ärzte Arztes
    guest guests | der Gast Gäste Gastes
    colleague colleagues | der Kollege Kollegen weak
    customer customers | der Kunde Kunden weak
    tourist tourists | der Tourist Touristen weak
    lady ladies | die Dame Damen
    journalist journalists | der Journalist Journalisten weak
    dancer dancers | die Tänzerin Tänzerinnen

    [family: funny clever hard-working tired hungry happy nice]
    mother mothers | die Mutter Mütter
    father fathers | der Vater Väter
    brother brothers | der Bruder Brüder
    sister sisters | die Schwester Schwestern
    son sons | der Sohn Söhne
    daughter daughters | die Tochter Töchter

    [relative: old nice funny rich]
    grandmother grandmothers | die Großmutter Großmütter
    grandfather grandfathers | der Großvater Großväter
    uncle uncles | der Onkel Onkel
    aunt aunts | die Tante Tanten
    cousin cousins | der Cousin Cousins
    nephew nephews | der Neffe Neffen weak

    [name:]
    Anna - | die Anna -
    Maria - | die Maria -
    Peter - | der Peter -
    Paul - | der Paul -

    [animal: big small old young black white brown grey fast slow hungry beautiful]
    dog dogs | der Hund Hunde
    cat cats | die Katze Katzen
    horse horses | das Pferd Pferde
    bird birds | der Vogel Vögel
    cow cows | die Kuh Kühe
    mouse mice | die Maus Mäuse
    duck ducks | die Ente Enten
    pig pigs | das Schwein Schweine
    goose geese | die Gans Gänse
    rabbit rabbits | das Kaninchen Kaninchen

    [beast: big small old young strong hungry beautiful wild]
    bear bears | der Bär Bären weak
    monkey monkeys | der Affe Affen weak
    lion lions | der Löwe Löwen weak
    elephant elephants | der Elefant Elefanten weak

    [fruit: fresh sweet ripe big small red green yellow]
    apple apples | der Apfel Äpfel
    pear pears | die Birne Birnen
    tomato tomatoes | die Tomate Tomaten
    cherry cherries | die Kirsche Kirschen
    peach peaches | der Pfirsich Pfirsiche

    [food: fresh big small delicious cheap expensive]
    orange oranges | die Orange Orangen
    banana bananas | die Banane Bananen
    egg eggs | das Ei Eier
    potato potatoes | die Kartoffel Kartoffeln
    carrot carrots | die Karotte Karotten
    sausage sausages | die Wurst Würste
    mushroom mushrooms | der Pilz Pilze
    cake cakes | der Kuchen Kuchen
    cookie cookies | der Keks Kekse
    roll rolls | das Brötchen Brötchen
    pizza pizzas | die Pizza Pizzas

    [staple: fresh delicious cheap expensive]
    bread - | das Brot -
    cheese - | der Käse -
    butter - | die Butter -
    meat - | das Fleisch -
    rice - | der Reis -
    honey - | der Honig -
    chocolate - | die Schokolade -

    [dish: hot cold delicious]
    soup soups | die Suppe Suppen

    [drink: cold cheap expensive]
    water - | das Wasser -
    juice - | der Saft -
    beer - | das Bier -
    wine - | der Wein -
    lemonade - | die Limonade -

    [hot-drink: hot cold sweet]
    coffee - | der Kaffee -
    tea - | der Tee -
    milk - | die Milch -
    cocoa - | der Kakao -

    [text: interesting long short exciting boring sad funny new]
    book books | das Buch Bücher
    newspaper newspapers | die Zeitung Zeitungen
    letter letters | der Brief Briefe
    magazine magazines | die Zeitschrift Zeitschriften
    poem poems | das Gedicht Gedichte
    story stories | die Geschichte Geschichten
    novel novels | der Roman Romane
    report reports | der Bericht Berichte
    postcard postcards | die Postkarte Postkarten

    [clothes: red blue green yellow black white brown grey new old warm elegant expensive cheap dirty clean]
    coat coats | der Mantel Mäntel
    shirt shirts | das Hemd Hemden
    dress dresses | das Kleid Kleider
    jacket jackets | die Jacke Jacken
    hat hats | der Hut Hüte
    skirt skirts | der Rock Röcke
    sweater sweaters | der Pullover Pullover
    scarf scarves | der Schal Schals
    blouse blouses | die Bluse Blusen
    cap caps | die Mütze Mützen

    [vehicle: red blue green yellow black white new old fast slow expensive cheap big small dirty]
    car cars | das Auto Autos
    bicycle bicycles | das Fahrrad Fahrräder
    bus buses | der Bus Busse
    train trains | der Zug Züge
    boat boats | das Boot Boote
    truck trucks | der Lastwagen Lastwagen
    motorcycle motorcycles | das Motorrad Motorräder
    ship ships | das Schiff Schiffe
    tractor tractors | der Traktor Traktoren

    [device: new old modern expensive cheap small big black white]
    lamp lamps | die Lampe Lampen
    radio radios | das Radio Radios
    television televisions | der Fernseher Fernseher
    computer computers | der Computer Computer
    machine machines | die Maschine Maschinen
    camera cameras | die Kamera Kameras
    clock clocks | die Uhr Uhren

    [thing: red blue green yellow white brown new old small big beautiful]
    picture pictures | das Bild Bilder
    mirror mirrors | der Spiegel Spiegel
    key keys | der Schlüssel Schlüssel
    ball balls | der Ball Bälle
    cup cups | die Tasse Tassen
    glass glasses | das Glas Gläser
    plate plates | der Teller Teller
    knife knives | das Messer Messer
    spoon spoons | der Löffel Löffel
    fork forks | die Gabel Gabeln
    pencil pencils | der Bleistift Bleistifte
    umbrella umbrellas | der Regenschirm Regenschirme
    flower flowers | die Blume Blumen
    gift gifts | das Geschenk Geschenke
    ring rings | der Ring Ringe
    doll dolls | die Puppe Puppen
    map maps | die Karte Karten
    coin coins | die Münze Münzen
    candle candles | die Kerze Kerzen
    vase vases | die Vase Vasen
    pillow pillows | das Kissen Kissen
    bottle bottles | die Flasche Flaschen

    [container: big small heavy old new black brown]
    bag bags | die Tasche Taschen
    box boxes | die Kiste Kisten
    suitcase suitcases | der Koffer Koffer
    parcel parcels | das Paket Pakete
    basket baskets | der Korb Körbe
    bucket buckets | der Eimer Eimer

    [furniture: big small heavy old new white brown black]
    table tables | der Tisch Tische
    chair chairs | der Stuhl Stühle
    bed beds | das Bett Betten
    shelf shelves | das Regal Regale
    sofa sofas | das Sofa Sofas
    desk desks | der Schreibtisch Schreibtische
    cupboard cupboards | der Schrank Schränke
    bench benches | die Bank Bänke

    [opening: big small heavy old new green white brown]
    window windows | das Fenster Fenster
    door doors | die Tür Türen
    gate gates | das Tor Tore
    drawer drawers | die Schublade Schubladen

    [building: big small old new beautiful white famous]
    house houses | das Haus Häuser
    tower towers | der Turm Türme
    church churches | die Kirche Kirchen | in in in
    bridge bridges | die Brücke Brücken | on auf zu
    castle castles | das Schloss Schlösser Schlosses | in in zu
    museum museums | das Museum Museen | in in in

    [plant: big small old beautiful]
    tree trees | der Baum Bäume
    rose roses | die Rose Rosen

    [room: big small clean dirty warm cold]
    kitchen kitchens | die Küche Küchen | in in in
    room rooms | das Zimmer Zimmer | in in in
    office offices | das Büro Büros | in in in
    garage garages | die Garage Garagen | in in in
    cellar cellars | der Keller Keller | in in in
    classroom classrooms | das Klassenzimmer Klassenzimmer | in in in

    [place: big small old new beautiful quiet]
    market markets | der Markt Märkte | at auf zu
    park parks | der Park Parks | in in in
    school schools | die Schule Schulen | at in zu
    station stations | der Bahnhof Bahnhöfe | at an zu
    library libraries | die Bibliothek Bibliotheken | in in in
    garden gardens | der Garten Gärten | in in in
    restaurant restaurants | das Restaurant Restaurants | in in in
    hotel hotels | das Hotel Hotels | in in in
    café cafés | das Café Cafés | in in in
    beach beaches | der Strand Strände | at an zu
    lake lakes | der See Seen | at an zu
    forest forests | der Wald Wälder | in in in
    city cities | die Stadt Städte | in in in
    village villages | das Dorf Dörfer | in in in
    bakery bakeries | die Bäckerei Bäckereien | at in zu
    hospital hospitals | das Krankenhaus Krankenhäuser | in in in
    theatre theatres | das Theater Theater | in in in
    cinema cinemas | das Kino Kinos | in in in
    airport airports | der Flughafen Flughäfen | at an zu
    square squares | der Platz Plätze | on auf zu
    street streets | die Straße Straßen | on auf zu
    farm farms | der Bauernhof Bauernhöfe | on auf zu
    university universities | die Universität Universitäten | at an zu
    harbour harbours | der Hafen Häfen | in in zu
    factory factories | die Fabrik Fabriken | in in in
    shop shops | das Geschäft Geschäfte | in in in
    zoo zoos | der Zoo Zoos | in in in
""".replace("\n\n", "\n")
)

PORTABLE = "key ball ring coin map umbrella bag hat scarf cap camera pencil"

TRANSITIVE = _verbs(f"""
    buy buys bought bought | kaufen kauft kaufte gekauft \
        | @fruit @food @staple @drink @clothes @device cup vase mirror doll table sofa bicycle \
        | market shop city village
    sell sells sold sold | verkaufen verkauft verkaufte verkauft \
        | @fruit @food @staple @clothes @furniture lamp vase mirror boat tractor horse | market shop village
    see sees saw seen | sehen sieht sah gesehen | @animal @beast @vehicle @building tree
    draw draws drew drawn | zeichnen zeichnet zeichnete gezeichnet \
        | @animal @beast @building @plant ship train | park school café garden
    photograph photographs photographed photographed | fotografieren fotografiert fotografierte fotografiert \
        | @animal @beast @plant | zoo park forest
    find finds found found | finden findet fand gefunden | {PORTABLE} | park station street beach school
    look+for looks looked looked | suchen sucht suchte gesucht \
        | {PORTABLE} newspaper suitcase | station hotel kitchen office
    lose loses lost lost | verlieren verliert verlor verloren | {PORTABLE} | park city airport forest
    eat eats ate eaten | essen isst aß gegessen | @fruit @food @staple soup | kitchen garden restaurant park
    cook cooks cooked cooked | kochen kocht kochte gekocht \
        | egg soup rice meat sausage | kitchen restaurant hotel
    bake bakes baked baked | backen backt backte gebacken | cake cookie roll pizza bread | kitchen bakery
    drink drinks drank drunk | trinken trinkt trank getrunken \
        | @drink @hot-drink | café kitchen garden hotel
    order orders ordered ordered | bestellen bestellt bestellte bestellt \
        | @drink @hot-drink pizza soup cake sausage | restaurant café hotel
    read reads read read | lesen liest las gelesen | @text | garden library park café
    write writes wrote written | schreiben schreibt schrieb geschrieben \
        | letter poem story novel report postcard | office library hotel café
    repair repairs repaired repaired | reparieren repariert reparierte repariert \
        | @device car bicycle motorcycle boat truck tractor | garage factory
    wash washes washed washed | waschen wäscht wusch gewaschen \
        | shirt dress blouse sweater skirt scarf car bus truck
    wear wears wore worn | tragen trägt trug getragen | coat shirt jacket hat sweater scarf cap | office school theatre
    carry carries carried carried | tragen trägt trug getragen | @container chair
    build builds built built | bauen baut baute gebaut | house tower bridge church boat table shelf bench
    visit visits visited visited | besuchen besucht besuchte besucht | @acquaintance @relative museum castle
    meet meets met met | treffen trifft traf getroffen | @acquaintance @relative | park station café city
    feed feeds fed fed | füttern füttert fütterte gefüttert \
        | dog cat horse bird cow duck pig goose rabbit | farm zoo garden
    watch watches watched watched | beobachten beobachtet beobachtete beobachtet | @animal @beast | forest zoo
""")

SEPARABLE = _verbs("""
    open opens opened opened | auf+machen macht machte gemacht | @opening @container bottle cupboard
    close closes closed closed | zu+machen macht machte gemacht \
        | @opening bag box suitcase bottle cupboard book
    put+on puts put put | an+ziehen zieht zog gezogen | coat shirt jacket sweater
    take+off takes took taken | aus+ziehen zieht zog gezogen | coat shirt jacket sweater
    turn+on turns turned turned | ein+schalten schaltet schaltete geschaltet \
        | lamp radio television computer machine camera
    turn+off turns turned turned | aus+schalten schaltet schaltete geschaltet \
        | lamp radio television computer machine camera
    clean+up cleans cleaned cleaned | auf+räumen räumt räumte geräumt | @room desk cupboard shelf
    pick+up picks picked picked | ab+holen holt holte geholt | @acquaintance @relative parcel suitcase
    invite invites invited invited | ein+laden lädt lud geladen | @acquaintance @relative
    call calls called called | an+rufen ruft rief gerufen | @acquaintance @relative
    bring+along brings brought brought | mit+bringen bringt brachte gebracht \
        | cake cookie pizza flower gift ball map
    throw+away throws threw thrown | weg+werfen wirft warf geworfen \
        | newspaper magazine letter bottle box hat shirt map
    pack packs packed packed | ein+packen packt packte gepackt | gift book sweater shirt skirt vase glass
    give+back gives gave given | zurück+geben gibt gab gegeben | book key umbrella bicycle camera
""")

DITRANSITIVE = _verbs("""
    give gives gave given | geben gibt gab gegeben | gift book ring flower apple key ball doll cup
    show shows showed shown | zeigen zeigt zeigte gezeigt \
        | picture map ring bicycle camera letter house rabbit
    send sends sent sent | schicken schickt schickte geschickt | letter postcard parcel picture gift book
    lend lends lent lent | leihen leiht lieh geliehen | bicycle car umbrella camera book pencil
    bring brings brought brought | bringen bringt brachte gebracht \
        | flower cake newspaper basket chair bottle pillow
""")

WITH_DATIVE = _verbs(
    """
    help helps helped helped | helfen hilft half geholfen | @acquaintance @relative
    thank thanks thanked thanked | danken dankt dankte gedankt | @acquaintance @relative
    follow follows followed followed | folgen folgt folgte gefolgt sein | @acquaintance @relative
    congratulate congratulates congratulated congratulated | gratulieren gratuliert gratulierte gratuliert \
        | @acquaintance @relative
    answer answers answered answered | antworten antwortet antwortete geantwortet | @acquaintance @relative
""",
    case="dative",
)

ACTIVITIES = _verbs("""
    work works worked worked | arbeiten arbeitet arbeitete gearbeitet \
        | | office hospital factory restaurant school library bakery farm museum
    sleep sleeps slept slept | schlafen schläft schlief geschlafen | | hotel room garden forest castle
    dance dances danced danced | tanzen tanzt tanzte getanzt | | square beach café kitchen street
    sing sings sang sung | singen singt sang gesungen | | church theatre garden school street
    wait waits waited waited | warten wartet wartete gewartet \
        | | station airport bridge square harbour restaurant
    study studies studied studied | lernen lernt lernte gelernt | | library school café university classroom
    laugh laughs laughed laughed | lachen lacht lachte gelacht | | cinema theatre classroom café park
    play+football plays played played | Fußball_spielen spielt spielte gespielt \
        | | park beach street garden village
    play+cards plays played played | Karten_spielen spielt spielte gespielt | | café kitchen hotel garden
    go+for_a_walk goes went gone | spazieren_gehen geht ging gegangen sein | | park forest city zoo
""")

ROUTINES = _verbs("""
    get+up gets got got | auf+stehen steht stand gestanden sein
    wake+up wakes woke woken | auf+wachen wacht wachte gewacht sein
    fall+asleep falls fell fallen | ein+schlafen schläft schlief geschlafen sein
    come+back comes came come | zurück+kommen kommt kam gekommen sein
    arrive arrives arrived arrived | an+kommen kommt kam gekommen sein
    depart departs departed departed | ab+fahren fährt fuhr gefahren sein
""")

FAR = "market park school museum station library restaurant hotel café beach lake forest city village bakery"
FAR += " hospital church theatre cinema airport castle university harbour factory zoo farm"

MOTIONS = _verbs(f"""
    go goes went gone | gehen geht ging gegangen sein | | {FAR} kitchen garden
    run runs ran run | laufen läuft lief gelaufen sein | | {FAR} bridge garden
    drive drives drove driven | fahren fährt fuhr gefahren sein | | {FAR}
    hurry hurries hurried hurried | eilen eilt eilte geeilt sein | | {FAR} office
""")

JOURNEYS = _verbs("""
    fly flies flew flown | fliegen fliegt flog geflogen sein
    travel travels travelled travelled | reisen reist reiste gereist sein
    drive drives drove driven | fahren fährt fuhr gefahren sein
""")

LAY = _verbs("""
    lay lays laid laid | legen legt legte gelegt \
        | book newspaper letter magazine key knife spoon fork pencil map coin ring pillow shirt hat scarf
""")["lay"]

PUT = _verbs("""
    put puts put put | stellen stellt stellte gestellt \
        | vase lamp cup glass plate bottle bucket basket box candle suitcase clock
""")["put"]

LIE = _verbs("""
    lie lies lay lain | liegen liegt lag gelegen \
        | book newspaper letter magazine key knife spoon fork pencil map coin ring pillow shirt hat scarf
""")["lie"]

STAND = _verbs("""
    stand stands stood stood | stehen steht stand gestanden \
        | vase lamp cup glass plate bottle bucket basket box candle suitcase clock
""")["stand"]

THOUGHTS = _verbs("""
    say says said said | sagen sagt sagte gesagt
    know knows knew known | wissen weiß wusste gewusst
    believe believes believed believed | glauben glaubt glaubte geglaubt
    hope hopes hoped hoped | hoffen hofft hoffte gehofft
""")

ATTEMPTS = _verbs("""
    try tries tried tried | versuchen versucht versuchte versucht
    promise promises promised promised | versprechen verspricht versprach versprochen
    forget forgets forgot forgotten | vergessen vergisst vergaß vergessen
""")

MODALS = (
    Modal(singular="can", plural="can", german_singular="kann", german_plural="können"),
    Modal(singular="must", plural="must", german_singular="muss", german_plural="müssen"),
    Modal(singular="may", plural="may", german_singular="darf", german_plural="dürfen"),
    Modal(singular="should", plural="should", german_singular="sollte", german_plural="sollten"),
    Modal(singular="wants to", plural="want to", german_singular="will", german_plural="wollen"),
)

NUMBERS: Mapping[str, str] = {
    "two": "zwei",
    "three": "drei",
    "four": "vier",
    "five": "fünf",
    "six": "sechs",
    "seven": "sieben",
    "eight": "acht",
    "nine": "neun",
    "ten": "zehn",
    "eleven": "elf",
    "twelve": "zwölf",
}

PRESENT_TIMES = _adverbials("""
    today | heute
    every day | jeden Tag
    every morning | jeden Morgen
    every week | jede Woche
    on Monday | am Montag
    on Wednesday | am Mittwoch
    on Saturday | am Samstag
    in the morning | am Morgen
    in the afternoon | am Nachmittag
    in the evening | am Abend
    at the weekend | am Wochenende
    in summer | im Sommer
    in winter | im Winter
""")

PAST_TIMES = _adverbials("""
    yesterday | gestern
    yesterday evening | gestern Abend
    last week | letzte Woche
    last month | letzten Monat
    last year | letztes Jahr
    last Friday | letzten Freitag
    last Sunday | letzten Sonntag
    two days ago | vor zwei Tagen
    three weeks ago | vor drei Wochen
    a week ago | vor einer Woche
    a month ago | vor einem Monat
    an hour ago | vor einer Stunde
""")

FUTURE_TIMES = _adverbials("""
    tomorrow | morgen
    tomorrow evening | morgen Abend
    next week | nächste Woche
    next month | nächsten Monat
    next year | nächstes Jahr
    next Tuesday | nächsten Dienstag
    next Thursday | nächsten Donnerstag
    in two days | in zwei Tagen
    in three weeks | in drei Wochen
    soon | bald
""")

CLOCK_TIMES = tuple(
    Adverbial(english=f"at {english} o'clock", german=f"um {german} Uhr") for english, german in NUMBERS.items()
)

FREQUENCIES = _adverbials("""
    often | oft
    always | immer
    sometimes | manchmal
    rarely | selten
    usually | meistens
    never | nie
""")

PERFECT_ADVERBS = _adverbials("""
    already | schon
    just | gerade
    finally | endlich
    never | noch nie
""")

MANNERS = _adverbials("""
    carefully | vorsichtig
    quickly | schnell
    slowly | langsam
    quietly | leise
    alone | allein
""")

WEATHER = _adverbials("""
    it rains | es regnet
    it snows | es schneit
    it is cold | es kalt ist
    it is hot | es heiß ist
    the sun shines | die Sonne scheint
    the weather is bad | das Wetter schlecht ist
    the weather is good | das Wetter gut ist
""")

TOWNS = _adverbials("""
    to Berlin | nach Berlin
    to Hamburg | nach Hamburg
    to Munich | nach München
    to Vienna | nach Wien
    to Cologne | nach Köln
    to Rome | nach Rom
    to Paris | nach Paris
    to London | nach London
    to Zurich | nach Zürich
""")

MOODS = _adverbials("""
    happy | glücklich
    tired | müde
    proud | stolz
    nervous | nervös
    satisfied | zufrieden
""")

DEGREES = _adverbials("""
    very | sehr
    too | zu
    quite | ziemlich
    not | nicht
    no longer | nicht mehr
""")

COLOURS = frozenset({"red", "blue", "green", "yellow", "black", "white", "brown", "grey"})
