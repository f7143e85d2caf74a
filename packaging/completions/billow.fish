# Completion of billow for fish. The program itself prints the words: billow __complete WORDS.

function __billow_offers
    set -l begun (commandline -opc)
    set -l current (commandline -ct)
    set -l kept ''
    if string match -q -- '--*=*' "$current"
        set -l parts (string split -m 1 = -- "$current")
        set -a begun $parts[1]
        set current $parts[2]
        set kept "$parts[1]="
    end
    set -l offers (command billow __complete $begun[2..] "$current" 2>/dev/null)
    if test (count $offers) -gt 0
        for offer in $offers
            echo "$kept$offer"
        end
    else
        __fish_complete_path "$current"
    end
end

complete -c billow -f -k -a '(__billow_offers)'
